"""What a spec does not name is not read, converted or checked."""

import numpy as np
import pytest

from ampcore import data
from ampcore.errors import InvalidData
from ampcore.spec.data import Npz

X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1] * 3)


@pytest.mark.parametrize(
    "extra",
    [
        np.array(28),
        np.array(["cat", "dog"], object),
        np.zeros(6, complex),
        np.zeros(6, "datetime64[s]"),
        np.full(6, 2**64 - 1, np.uint64),
        np.array([b"\xff"] * 6),
        np.zeros((2, 3)),
        np.zeros(0),
    ],
    ids=lambda extra: f"{extra.dtype}{extra.shape}",
)
def test_arrays_beside_x_and_y_do_not_matter(tmp_path, extra):
    np.savez(tmp_path / "it.npz", x=X, y=Y, extra=extra)
    dataset = data.load(Npz(path="it.npz", batch_size=2), seed=0, data_root=tmp_path)
    assert len(dataset.train) == 6


def test_an_array_that_is_named_and_left_out_says_why(tmp_path):
    np.savez(tmp_path / "it.npz", x=X, kinds=np.zeros(6, complex))
    spec = Npz(path="it.npz", target="kinds", batch_size=2)
    with pytest.raises(InvalidData, match=r"it.npz, kinds: expected numbers, .* complex128"):
        data.load(spec, seed=0, data_root=tmp_path)


@pytest.mark.parametrize("other", ["test", "val"])
def test_arrays_without_a_split_are_trained_on(tmp_path, other):
    arrays = {"x": X, "y": Y, f"x_{other}": X[:4], f"y_{other}": Y[:4]}
    np.savez(tmp_path / "it.npz", **arrays)
    dataset = data.load(Npz(path="it.npz", batch_size=2), seed=0, data_root=tmp_path)
    assert (len(dataset.train), len(dataset.validation)) == (6, 4)

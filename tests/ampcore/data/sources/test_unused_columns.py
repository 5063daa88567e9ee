"""What a spec does not name is not read, converted or checked."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ampcore import data
from ampspec.data.data import Npz, Parquet
from ampspec.errors import InvalidData

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
    dataset = data.load(Npz(path="it.npz", batch_size=2), data_root=tmp_path)
    assert len(dataset.train) == 6


def test_an_array_that_is_named_and_left_out_says_why(tmp_path):
    np.savez(tmp_path / "it.npz", x=X, kinds=np.zeros(6, complex))
    spec = Npz(path="it.npz", target="kinds", batch_size=2)
    with pytest.raises(InvalidData, match=r"it.npz, kinds: expected numbers, .* complex128"):
        data.load(spec, data_root=tmp_path)


@pytest.mark.parametrize("other", ["test", "val"])
def test_arrays_without_a_split_are_trained_on(tmp_path, other):
    arrays = {"x": X, "y": Y, f"x_{other}": X[:4], f"y_{other}": Y[:4]}
    np.savez(tmp_path / "it.npz", **arrays)
    dataset = data.load(Npz(path="it.npz", batch_size=2), data_root=tmp_path)
    assert (len(dataset.train), len(dataset.validation)) == (6, 4)


@pytest.mark.parametrize(
    "extra",
    [
        [1, None, 3, 4, 5, 6],
        [[1], [2, 3], [], None, [1], [1]],
        pa.array([1, 2, 3, 4, 5, 2**63], pa.uint64()),
        pa.array([b"a", b"\xff", b"", b"a", b"a", b"a"], pa.binary()).view(pa.string()),
        pa.array([0] * 6, pa.timestamp("s", "Nowhere/Land")),
        [b"no picture"] * 6,
    ],
    ids=["missing", "ragged", "uint64", "latin-1", "time zone", "bytes"],
)
def test_bad_columns_of_a_table_do_not_matter_if_they_are_not_named(tmp_path, extra):
    pq.write_table(pa.table({"x": X[:, 0], "y": Y, "extra": extra}), tmp_path / "it.parquet")
    spec = Parquet(path="it.parquet", inputs="x", target="y", batch_size=2)
    dataset = data.load(spec, data_root=tmp_path)
    assert len(dataset.train) == 4


def test_a_part_for_evaluation_without_the_target_names_the_way_out(tmp_path):
    np.savez(tmp_path / "it.npz", x_train=X, y_train=Y, x_test=X)
    spec = Npz(path="it.npz", batch_size=2)
    with pytest.raises(
        InvalidData, match=r"column y: .*, in the part test; or a `validation_split`"
    ):
        data.load(spec, data_root=tmp_path)
    spec = spec.model_copy(update={"validation_split": 0.5})
    assert len(data.load(spec, data_root=tmp_path).train) == 3

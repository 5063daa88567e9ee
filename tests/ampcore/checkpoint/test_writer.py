import hashlib
import json
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from ampcore.checkpoint import load, save
from ampcore.checkpoint.file_format import BEST_MODEL, DIGEST, GOOD_STATE
from ampspec.tensor_header import METADATA

RESERVED = (METADATA, DIGEST, GOOD_STATE, BEST_MODEL)
NAMES = st.text().filter(lambda name: not name.startswith(RESERVED))
SHAPES = nps.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def round_trip(folder, make_checkpoint):
    """Saves a checkpoint with these arrays and returns the loaded arrays."""

    def arrays_of(arrays):
        file = save(folder, make_checkpoint(arrays=arrays))
        back = load(file).arrays
        file.unlink()
        return back

    return arrays_of


def same_bits(a, b):
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


@given(data=st.data())
@settings(max_examples=60, deadline=None)  # saving waits for the disk
def test_arrays_are_loaded_bit_for_bit(round_trip, dtypes, data):
    def drawn(dtype, shape):
        # Any bytes at all: the payloads of NaNs are bits too. A bool is 0 or 1.
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        raw = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), np.uint8)
        raw = raw % 2 if dtype is np.bool_ else raw
        return raw.view(dtype).reshape(shape)

    kinds = data.draw(st.dictionaries(NAMES, st.tuples(st.sampled_from(dtypes), SHAPES)))
    arrays = {name: drawn(*kind) for name, kind in kinds.items()}
    back = round_trip(arrays)
    assert back.keys() == arrays.keys()
    assert all(same_bits(back[name], arrays[name]) for name in arrays)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4).T,
        np.arange(12, dtype=np.int64)[::-3],
        np.broadcast_to(np.float16(2), (2, 3)),
    ],
    ids=["transposed", "every third, backwards", "broadcast"],
)
def test_an_array_that_is_not_contiguous_is_saved(round_trip, array):
    assert same_bits(round_trip({"a": array})["a"], np.ascontiguousarray(array))


def test_loaded_arrays_are_writable(round_trip):
    round_trip({"a": np.zeros(3)})["a"][1] = 1


def test_the_file_follows_the_safetensors_format(folder, make_checkpoint):
    narrow, wide = np.array([True]), np.array([1.5, -2], ml_dtypes.bfloat16)
    checkpoint = make_checkpoint(arrays={"a/narrow": narrow, "b/wide": wide})
    content = save(folder, checkpoint).read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    assert length % 8 == 0
    assert content[8:9] == b"{"
    assert json.loads(header.pop("__metadata__")["manifest"])["step"] == checkpoint.manifest.step
    # Wide items come first, so that each begins at a multiple of its size.
    assert header == {
        "b/wide": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]},
        "a/narrow": {"dtype": "BOOL", "shape": [1], "data_offsets": [4, 5]},
        "__sha256__": {"dtype": "U8", "shape": [32], "data_offsets": [5, 37]},
    }
    assert data == wide.tobytes() + b"\1" + hashlib.sha256(content[:-32]).digest()


@pytest.mark.parametrize("name", ["__metadata__", "__sha256__"])
def test_a_reserved_array_name_is_refused(folder, make_checkpoint, name):
    with pytest.raises(ValueError, match=name):
        save(folder, make_checkpoint(arrays={name: np.zeros(1)}))


@pytest.mark.parametrize("dtype", [object, str, np.complex64, "datetime64[s]", [("a", "f4")]])
def test_an_unsupported_dtype_is_refused(folder, make_checkpoint, dtype):
    with pytest.raises(ValueError, match="its dtype is"):
        save(folder, make_checkpoint(arrays={"a": np.zeros(1, dtype)}))


@pytest.mark.parametrize("parts", [("good",), ("best",), ("good", "best"), ()])
def test_further_weights_are_read_back_apart_from_the_state(tmp_path, make_checkpoint, parts):
    made = make_checkpoint(arrays={"a": np.arange(4)})
    further = {f"{part}_arrays": {"a": np.full(4, number)} for number, part in enumerate(parts)}
    found = load(save(tmp_path, replace(made, **further)))
    assert found.arrays.keys() == {"a"}
    for name in ("good_arrays", "best_arrays"):
        np.testing.assert_equal(getattr(found, name), further.get(name))


@pytest.mark.parametrize(
    ("parts", "number"), [((), 1), (("good",), 2), (("best",), 3), (("good", "best"), 3)]
)
def test_the_format_is_the_oldest_one_that_holds_the_checkpoint(
    tmp_path, make_checkpoint, parts, number
):
    further = {f"{part}_arrays": {"a": np.arange(4)} for part in parts}
    file = save(tmp_path, replace(make_checkpoint(arrays={"a": np.arange(4)}), **further))
    assert f'"format": "ampcore-checkpoint-{number}"'.encode() in file.read_bytes()

"""A safetensors file of plain arrays, read as the format says."""

import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ampcore.checkpoint.file_format import DTYPES
from ampcore.checkpoint.tensors import encode_tensors

NAMES = st.text("abc/_", min_size=1, max_size=8)
ARRAYS = st.sampled_from([np.float32, np.float16, np.int32, np.bool_, np.uint8]).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, min_side=0, max_side=4))
)


def decode(data):
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    metadata, body = header.pop("__metadata__"), data[8 + length :]
    found, end = {}, 0
    for name, one in header.items():
        begin, end = one["data_offsets"]
        dtype = DTYPES[one["dtype"]]
        assert begin % dtype.itemsize == 0
        found[name] = np.frombuffer(body[begin:end], dtype).reshape(one["shape"])
    assert length % 8 == 0
    assert end == len(body)
    return metadata, found


@given(st.dictionaries(NAMES, ARRAYS, max_size=5))
def test_arrays_are_read_back_bit_for_bit(given):
    metadata, found = decode(encode_tensors(given, {"format": "test"}))
    assert metadata == {"format": "test"}
    assert found.keys() == given.keys()
    for name, array in given.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()


def test_an_array_that_is_not_contiguous_and_bfloat16_are_written_in_order():
    transposed = np.arange(6, dtype=np.float32).reshape(2, 3).T
    half = np.ones(3, ml_dtypes.bfloat16)
    _, found = decode(encode_tensors({"half": half, "t": transposed}, {}))
    np.testing.assert_array_equal(found["t"], transposed)
    assert found["half"].dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    "arrays", [{"x": np.array([object()])}, {"__metadata__": np.zeros(1, np.float32)}]
)
def test_objects_and_a_reserved_name_are_refused(arrays):
    with pytest.raises(ValueError, match="Expected an array of numbers"):
        encode_tensors(arrays, {})

"""A header of safetensors is checked before anything of the file is used: no input is trusted."""

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampcore.checkpoint.tensors import encode_tensors
from ampspec import tensor_header
from ampspec.tensor_header import DTYPE_SIZES, TensorFormatError, read_weights_header

NAMES = st.text(min_size=1, max_size=8)
SHAPES = st.lists(st.integers(0, 3), max_size=4)
DTYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64, "BOOL": np.bool_}


def read(content):
    return read_weights_header(io.BytesIO(content), len(content))


def file_of(document, data=b""):
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(1,), data_offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(data_offsets)}


@given(st.dictionaries(NAMES, st.tuples(st.sampled_from([*DTYPES]), SHAPES), min_size=1))
def test_the_header_of_every_valid_file_is_read(arrays):
    made = {name: np.zeros(shape, DTYPES[dtype]) for name, (dtype, shape) in arrays.items()}
    content = read(encode_tensors(made, {"format": "test"}))
    assert {name: (one.dtype, list(one.shape)) for name, one in content.items()} == arrays


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(content):
    with pytest.raises(TensorFormatError):
        read(content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from([*DTYPE_SIZES]) | JSON,
        "shape": SHAPES | JSON,
        "data_offsets": st.lists(st.integers(-1, 40), min_size=2, max_size=2) | JSON,
        "more": JSON,
    },
)


@given(st.dictionaries(NAMES, ENTRIES | JSON, max_size=4), st.binary(max_size=40))
def test_any_document_is_refused_or_describes_exactly_the_bytes_of_the_file(document, data):
    try:
        content = read(file_of(document, data))
    except TensorFormatError:
        return
    assert sum(one.size_bytes for one in content.values()) == len(data)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ([], "a JSON object as the header"),
        (b"[" * 100_000, "a header in JSON"),
        ({}, "from 1 to 65536 arrays"),
        ({"__metadata__": {"a": 1}, "x": entry()}, "texts by name as __metadata__"),
        ({"": entry()}, "names of 1 to 1024 characters"),
        ({"n" * 1025: entry()}, "names of 1 to 1024 characters"),
        ({"x": entry("F8_E4M3")}, "x in one of the dtypes"),
        ({"x": entry(shape=[2])}, "x in the bytes 0 to 8"),
        ({"x": entry(shape=[-1])}, "dtype, shape and data_offsets"),
        ({"x": entry(shape=[1] * 33)}, "dtype, shape and data_offsets"),
        ({"x": entry(shape=[2**62, 2**62])}, "x in the bytes 0 to"),
        ({"x": entry(), "y": entry()}, "y in the bytes 4 to 8"),
        ({"x": entry(data_offsets=[4, 8])}, "x in the bytes 0 to 4"),
        ({"x": entry(shape=[0], data_offsets=[0, 0])}, "0 bytes of arrays"),
    ],
)
def test_a_refusal_says_what_was_expected(document, expected):
    with pytest.raises(TensorFormatError) as caught:
        read(file_of(document, b"1234"))
    assert caught.value.expected.startswith(expected)
    assert len(caught.value.received) <= tensor_header.MAX_SHOWN_CHARS


def test_the_length_of_a_header_is_limited_before_it_is_read(monkeypatch):
    monkeypatch.setattr(tensor_header, "MAX_WEIGHTS_HEADER_SIZE", 10)

    class Unread(io.BytesIO):
        def read(self, size):
            assert size <= 8
            return super().read(size)

    content = file_of({"x": entry()}, b"1234")
    with pytest.raises(TensorFormatError, match="a header of at most 10 bytes"):
        read_weights_header(Unread(content), len(content))


def test_the_number_of_arrays_is_limited(monkeypatch):
    monkeypatch.setattr(tensor_header, "MAX_TENSORS", 1)
    document = {"x": entry(), "y": entry(data_offsets=[4, 8])}
    with pytest.raises(TensorFormatError, match="from 1 to 1 arrays"):
        read(file_of(document, b"12345678"))

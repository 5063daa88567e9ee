"""Encoded arrays: they survive, and bytes from outside are bounded and only numbers."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from ampspec.telemetry.steps import array_codec

numbers = st.one_of(nps.boolean_dtypes(), nps.integer_dtypes(), nps.floating_dtypes(sizes=(32, 64)))
arrays = nps.arrays(numbers, st.integers(0, 20))


@given(st.dictionaries(st.text(max_size=20), arrays, max_size=5))
def test_arrays_survive_both_decoders(columns):
    payload = array_codec.encode(columns)
    for decoded in (
        array_codec.decode(payload),
        array_codec.decode_untrusted(payload, max_bytes=10_000),
    ):
        assert list(decoded) == list(columns)
        for name, column in columns.items():
            assert decoded[name].tobytes() == column.tobytes()


def test_bytes_from_outside_are_decompressed_only_up_to_the_limit():
    payload = array_codec.encode({"loss": np.zeros(2**20, np.float32)})
    with pytest.raises(ValueError, match="within 1000000 bytes"):
        array_codec.decode_untrusted(payload, max_bytes=1_000_000)


@given(st.binary(max_size=200))
def test_other_bytes_are_a_value_error(data):
    for payload in (data, zlib.compress(data), zlib.compress(b'{"loss": ["<f4", 1]}\n' + data)):
        try:
            array_codec.decode_untrusted(payload, max_bytes=1000)
        except ValueError:
            continue


@pytest.mark.parametrize(
    "dtype",
    ["|O", "<M8[s]", "<c8", "|V4", "<U1", "<f4,<f4", "(2,)f4", "(,)f4", "(1,2f4", "nothing"],
)
def test_arrays_of_anything_but_numbers_are_refused(dtype):
    payload = zlib.compress(f'{{"loss": ["{dtype}", 1]}}\n'.encode() + b"\0" * 16)
    with pytest.raises(ValueError, match=r"expected|unsupported|cannot"):
        array_codec.decode_untrusted(payload, max_bytes=1000)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ampspec.telemetry import COLUMN_DTYPES, StepBlock
from ampspec.telemetry.steps.buckets import Buckets
from ampspec.telemetry.steps.codec import decode, decode_buckets, encode, encode_buckets


@st.composite
def blocks(draw):
    """Blocks with any of the columns, extras, and any values, NaN and the infinities included."""
    count = draw(st.integers(0, 40))
    extras = st.text(min_size=1).filter(lambda name: name != "step")
    names = draw(
        st.lists(st.one_of(st.sampled_from(list(COLUMN_DTYPES)), extras), unique=True, min_size=1)
    )
    columns = {
        name: draw(arrays.arrays(COLUMN_DTYPES.get(name, np.float32), count)) for name in names
    }
    return StepBlock(draw(st.integers(0, 2**53)), columns)


@given(blocks())
def test_decoding_undoes_encoding(block):
    assert decode(encode(block)) == block


@given(blocks(), st.sets(st.sampled_from([*COLUMN_DTYPES, "loss/generator", "other"])))
def test_selected_columns_are_decoded_alone(block, names):
    decoded = decode(encode(block), names.__contains__)
    assert len(decoded) == len(block)
    kept = [name for name in block.names if name in names]
    assert decoded.select(kept) == block.select(kept)
    assert set(decoded.names) <= {*kept, block.names[0]}


@settings(deadline=None)
@given(blocks(), blocks(), st.integers(1, 9), st.booleans())
def test_decoding_undoes_the_encoding_of_buckets(block, other, size, whole):
    further = StepBlock(block.end_step + 7, {name: other[name] for name in other.names})
    joined = Buckets.concat([Buckets.of(block, size), Buckets.of(further, size)])
    names = joined.names if whole else joined.names[1:]
    decoded = decode_buckets(encode_buckets(joined), names.__contains__)
    assert (decoded.size, decoded.names) == (size, names)
    for name in ("starts", "ends", "counts", "skipped"):
        np.testing.assert_array_equal(getattr(decoded, name), getattr(joined, name))
    for name in names:
        for part in ("min", "max", "first", "last", "finite"):
            kept = getattr(decoded[name], part)
            assert kept.dtype == getattr(joined[name], part).dtype
            np.testing.assert_array_equal(kept, getattr(joined[name], part))
        np.testing.assert_allclose(decoded[name].mean, joined[name].mean, rtol=1e-6, atol=1e-30)


def test_encoding_keeps_the_bits_of_every_float():
    values = np.array([0x7FC00001, 0xFF800000, 0x00000001, 0x80000000], np.uint32).view(np.float32)
    decoded = decode(encode(StepBlock(0, {"loss": values})))
    np.testing.assert_array_equal(decoded["loss"].view(np.uint32), values.view(np.uint32))


def test_a_step_is_encoded_in_less_than_12_bytes():
    random = np.random.default_rng(0)
    columns = {name: random.random(1000) for name in ("loss", "grad_norm")}
    constant = {name: np.ones(1000) for name in COLUMN_DTYPES if name not in columns}
    assert len(encode(StepBlock(0, columns | constant))) < 12 * 1000


@pytest.mark.parametrize(
    "payload", [b"", b"no arrow here", encode(StepBlock(0, {"loss": [1]}))[:40]]
)
def test_malformed_bytes_are_refused(payload):
    with pytest.raises(ValueError, match="expected an encoded StepBlock"):
        decode(payload)
    with pytest.raises(ValueError, match="expected an encoded series of Buckets"):
        decode_buckets(payload)

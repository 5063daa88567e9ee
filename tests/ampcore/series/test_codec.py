import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ampcore.series import COLUMNS, StepBlock
from ampcore.series.buckets import Buckets
from ampcore.series.codec import decode, decode_buckets, encode, encode_buckets


@st.composite
def blocks(draw):
    """Blocks with any of the columns, extras, and any values, NaN and the infinities included."""
    count = draw(st.integers(0, 40))
    extras = st.text(min_size=1).filter(lambda name: name != "step")
    names = draw(
        st.lists(st.one_of(st.sampled_from(list(COLUMNS)), extras), unique=True, min_size=1)
    )
    columns = {name: draw(arrays.arrays(COLUMNS.get(name, np.float32), count)) for name in names}
    return StepBlock(draw(st.integers(0, 2**53)), columns)


@given(blocks())
def test_decoding_undoes_encoding(block):
    assert decode(encode(block)) == block


@settings(deadline=None)
@given(blocks(), st.integers(1, 9))
def test_decoding_undoes_the_encoding_of_buckets(block, size):
    made = Buckets.of(block, size)
    found = decode_buckets(encode_buckets(made))
    assert (found.size, found.first_step, found.end_step) == (size, made.first_step, made.end_step)
    assert found.names == made.names
    np.testing.assert_array_equal(found.skipped, made.skipped)
    for name in made.names:
        for part in ("min", "max", "first", "last", "finite"):
            kept = getattr(found[name], part)
            assert kept.dtype == getattr(made[name], part).dtype
            np.testing.assert_array_equal(kept, getattr(made[name], part))
        np.testing.assert_allclose(found[name].mean, made[name].mean, rtol=1e-6, atol=1e-30)


def test_the_bits_of_every_float_survive():
    values = np.array([0x7FC00001, 0xFF800000, 0x00000001, 0x80000000], np.uint32).view(np.float32)
    decoded = decode(encode(StepBlock(0, {"loss": values})))
    np.testing.assert_array_equal(decoded["loss"].view(np.uint32), values.view(np.uint32))


def test_a_step_costs_few_bytes():
    random = np.random.default_rng(0)
    columns = {name: random.random(1000) for name in ("loss", "grad_norm")}
    constant = {name: np.ones(1000) for name in COLUMNS if name not in columns}
    assert len(encode(StepBlock(0, columns | constant))) < 12 * 1000


@pytest.mark.parametrize(
    "payload", [b"", b"no arrow here", encode(StepBlock(0, {"loss": [1]}))[:40]]
)
def test_other_bytes_are_refused(payload):
    with pytest.raises(ValueError, match="expected an encoded StepBlock"):
        decode(payload)
    with pytest.raises(ValueError, match="expected an encoded series of Buckets"):
        decode_buckets(payload)

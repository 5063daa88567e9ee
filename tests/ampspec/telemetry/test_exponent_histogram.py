import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ampspec.telemetry.ranges.exponent_histogram import (
    SCALE_EXPONENTS,
    ExponentHistogram,
    suggest_scales,
)

floats = arrays(np.float32, st.integers(0, 30), elements=st.floats(width=32))


def cast(values, exponent):
    """The shares of zeros, subnormals and infinities after a cast to float16 at a loss scale."""
    with np.errstate(over="ignore"):
        found = np.abs((values.astype(np.float64) * 2.0**exponent).astype(np.float16))
    subnormal = (found > 0) & (found < np.finfo(np.float16).smallest_normal)
    return np.mean(found == 0), np.mean(subnormal), np.mean(np.isinf(found))


@pytest.mark.parametrize("exponent", SCALE_EXPONENTS)
def test_the_shares_match_a_cast_to_float16(exponent):
    random = np.random.default_rng(0)
    values = random.normal(size=20_000) * np.exp2(random.uniform(-50, 10, 20_000))
    shares = ExponentHistogram.of(values).shares(exponent)
    # Of the values with exponent 15, one in 2^11 is rounded to infinity.
    assert shares == pytest.approx(cast(values, exponent), abs=1e-3)


@given(floats)
def test_every_value_is_counted_once(values):
    histogram = ExponentHistogram.of(values)
    finite = np.abs(values[np.isfinite(values)].astype(np.float64))
    assert histogram.size == len(values)
    assert histogram.zeros == np.count_nonzero(finite == 0)
    assert histogram.not_finite == len(values) - len(finite)
    assert histogram.largest == finite.max(initial=0.0)
    for exponent, count in histogram.counts.items():
        low = 2.0**exponent
        assert count == np.count_nonzero((low <= finite) & (finite < 2 * low))


@given(floats, floats)
def test_the_sum_is_the_histogram_of_both(one, other):
    both = ExponentHistogram.of(np.concatenate([one, other]))
    assert ExponentHistogram.of(one) + ExponentHistogram.of(other) == both


@given(floats)
def test_a_histogram_survives_json(values):
    histogram = ExponentHistogram.of(values)
    assert ExponentHistogram.from_json(json.loads(json.dumps(histogram.to_json()))) == histogram


def test_the_weight_multiplies_the_counts():
    histogram = ExponentHistogram.of(np.array([0.0, 1.0, 1.5, np.nan]), weight=3)
    assert (histogram.counts, histogram.zeros, histogram.not_finite) == ({0: 6}, 3, 3)


def test_the_suggested_scales_underflow_little_and_never_overflow():
    values = np.exp2(np.linspace(-28, -5, 10_000))
    suggestion = suggest_scales(ExponentHistogram.of(values))
    assert cast(values, suggestion.lowest)[0] <= 0.001
    assert cast(values, suggestion.lowest - 1)[0] > 0.001
    assert cast(values, suggestion.highest + 1)[2] == 0
    assert cast(values, suggestion.highest + 2)[2] > 0


def test_another_large_scaled_value_lowers_the_highest_scale():
    gradients = ExponentHistogram.of(np.array([2.0**-10]))
    assert suggest_scales(gradients, largest=1.0).highest == suggest_scales(gradients).highest - 10


def test_gradients_with_too_wide_a_range_suit_no_scale():
    suggestion = suggest_scales(ExponentHistogram.of(np.array([1e-10] * 10 + [1e3])))
    assert suggestion.lowest > suggestion.highest


def test_zeros_alone_have_no_suggested_scales():
    assert suggest_scales(ExponentHistogram.of(np.zeros(5))) is None
    assert ExponentHistogram.of(np.zeros(5)).shares(0) == (0, 0, 0)

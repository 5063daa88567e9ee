"""The table of number formats, and what it predicts from exponents, match casts of ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest

from ampspec.telemetry.ranges.exponent_histogram import ExponentHistogram
from ampspec.telemetry.ranges.number_formats import NUMBER_FORMATS

DTYPES = {
    name: np.dtype(getattr(ml_dtypes, name, None) or getattr(np, name)) for name in NUMBER_FORMATS
}
EVEN = 20_000
"""Values in each power of two, evenly spaced."""


@pytest.fixture(params=NUMBER_FORMATS)
def name(request):
    return request.param


def cast(values, name):
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values, np.float64).astype(DTYPES[name]).astype(np.float64)


def test_the_limits_are_those_of_the_dtype(name):
    number_format, limits = NUMBER_FORMATS[name], ml_dtypes.finfo(DTYPES[name])
    assert number_format.largest == float(limits.max)
    assert 2.0**number_format.min_normal_exponent == float(limits.smallest_normal)
    assert 2.0**number_format.min_subnormal_exponent == float(limits.smallest_subnormal)
    assert number_format.mantissa_bits == limits.nmant
    assert (
        2.0**number_format.max_exponent
        <= number_format.largest
        < 2.0 ** (number_format.max_exponent + 1)
    )


def test_the_thresholds_are_those_of_a_cast(name):
    number_format = NUMBER_FORMATS[name]
    threshold = number_format.overflow_threshold
    # ml_dtypes casts through float32, which has no numbers nearer to the threshold.
    above, below = cast([threshold * (1 + 2**-20), threshold * (1 - 2**-20)], name)
    assert not np.isfinite(above)
    assert below == number_format.largest
    half = 2.0 ** (number_format.underflow_exponent + 1)
    assert cast(half * 0.999, name) == 0
    assert cast(half * 1.001, name) == 2 * half


def exponents_of_interest(name):
    """The powers of two around both ends of the range, and one inside."""
    number_format = NUMBER_FORMATS[name]
    low, high = number_format.min_subnormal_exponent, number_format.max_exponent
    return [*range(low - 3, low + 3), number_format.min_normal_exponent, 0, high - 1, high]


def test_the_error_in_each_power_of_two_is_that_of_a_cast(name):
    number_format = NUMBER_FORMATS[name]
    for exponent in exponents_of_interest(name):
        values = 2.0**exponent * (1 + (np.arange(EVEN) + 0.5) / EVEN)
        rounded = np.clip(
            np.nan_to_num(cast(values, name), nan=np.inf), None, number_format.largest
        )
        # Scaled, because squares of the smallest bfloat16 numbers are too small for float64.
        error = np.mean(((rounded - values) / 2.0**exponent) ** 2)
        expected = error / np.mean((values / 2.0**exponent) ** 2)
        predicted = ExponentHistogram.of(values).mean_squared_error(0, number_format)
        assert predicted == pytest.approx(expected, rel=0.02), exponent


def test_the_shares_at_every_scale_are_those_of_a_cast(name):
    number_format = NUMBER_FORMATS[name]
    random = np.random.default_rng(0)
    values = np.exp2(random.integers(-30, 6, 50_000)) * random.uniform(1, 2, 50_000)
    histogram = ExponentHistogram.of(values)
    for exponent in range(-20, 25, 4):
        rounded = cast(values * 2.0**exponent, name)
        shares = histogram.shares(exponent, number_format)
        assert shares.underflow == pytest.approx(np.mean(rounded == 0), abs=1e-3)
        assert shares.overflow == pytest.approx(np.mean(~np.isfinite(rounded)), abs=2e-3)
        subnormal = (rounded > 0) & (
            values * 2.0**exponent < 2.0**number_format.min_normal_exponent
        )
        assert shares.subnormal == pytest.approx(np.mean(subnormal), abs=4e-3)


def test_the_largest_value_decides_whether_the_top_power_of_two_overflows(name):
    number_format = NUMBER_FORMATS[name]
    fits, overflows = (
        [number_format.largest] * 3,
        [number_format.largest, 2.0 ** (number_format.max_exponent + 1) * 0.9999],
    )
    assert ExponentHistogram.of(np.array(fits)).shares(0, number_format).overflow == 0
    assert ExponentHistogram.of(np.array(overflows)).shares(0, number_format).overflow > 0


def test_zeros_have_no_error(name):
    zeros = ExponentHistogram.of(np.zeros(3))
    assert zeros.mean_squared_error(0, NUMBER_FORMATS[name]) == 0

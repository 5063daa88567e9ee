"""Rounding to float8 is compared with ml_dtypes, which every number format of JAX uses."""

import itertools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from ampcore.precision.layers.float8_format import E4M3, E5M2, quantize, round_to, scale_for

FORMATS = pytest.mark.parametrize("made", [E4M3, E5M2], ids=lambda made: made.name)
FORMS = pytest.mark.parametrize("xla", [False, True])


def dtype_of(made):
    return np.dtype(getattr(ml_dtypes, made.name))


def every_16_bit_number():
    bits = np.arange(2**16, dtype=np.uint16)
    both = bits.view(np.float16), bits.view(ml_dtypes.bfloat16)
    return np.concatenate([values.astype(np.float32) for values in both])


def halfway_numbers(made):
    """Every number between two neighbours, with the float32 numbers next to it."""
    grid = np.unique(np.arange(256, dtype=np.uint8).view(dtype_of(made)).astype(np.float32))
    grid = grid[np.isfinite(grid)]
    middle = (grid[1:] + grid[:-1]) / 2
    return np.concatenate([grid, middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0)])


def random_numbers():
    random = np.random.default_rng(0)
    return (random.normal(size=200_000) * 2.0 ** random.uniform(-30, 20, 200_000)).astype("float32")


@FORMS
@FORMATS
def test_rounding_is_that_of_ml_dtypes(made, xla):
    values = np.concatenate([every_16_bit_number(), halfway_numbers(made), random_numbers()])
    function = tf.function(lambda x: round_to(made, x), jit_compile=xla)
    rounded = function(tf.constant(values)).numpy()
    finite = np.isfinite(values)
    # ml_dtypes does not saturate.
    saturated = np.clip(values[finite], -made.largest, made.largest)
    expected = saturated.astype(dtype_of(made)).astype(np.float32)
    np.testing.assert_array_equal(rounded[finite], expected)
    np.testing.assert_array_equal(np.signbit(rounded[finite]), np.signbit(expected))
    # Saturation would hide an overflow from the finite check.
    assert np.isnan(rounded[~finite]).all()


@FORMATS
def test_the_largest_number_is_that_of_the_format(made):
    assert made.largest == float(ml_dtypes.finfo(made.name).max)


@FORMS
@FORMATS
def test_numbers_stored_in_8_bits_have_the_values_of_the_emulation(made, xla):
    values, scale = tf.constant(random_numbers()), tf.constant(2.0**-4)

    def both(x):
        return [quantize(made, x, scale, native=native) for native in (False, True)]

    emulated, stored = tf.function(both, jit_compile=xla)(values)
    np.testing.assert_array_equal(emulated, stored)
    assert len(np.unique(stored)) <= 256


@FORMATS
def test_scaling_changes_no_bit_of_the_mantissa(made):
    values = np.random.default_rng(1).uniform(1, 2, 1000).astype(np.float32)
    [first, second] = (
        quantize(made, tf.constant(values * factor), tf.constant(1 / factor), native=False) / factor
        for factor in (1.0, 2.0**-40)
    )
    np.testing.assert_array_equal(first, second)


def test_numbers_that_the_scale_makes_too_large_saturate_and_infinities_do_not():
    values = tf.constant([1e38, -1e38, np.inf, np.nan])
    quantized = quantize(E5M2, values, tf.constant(2.0**10), native=False).numpy()
    assert list(quantized[:2]) == [E5M2.largest / 2**10, -E5M2.largest / 2**10]
    assert np.isnan(quantized[2:]).all()


@pytest.mark.parametrize("margin", [0, 3])
@FORMATS
def test_the_scale_is_the_largest_power_of_two_within_the_range(made, margin):
    for exponent, mantissa in itertools.product((-30, 0, 30), (1.0, 1.3, 1.75, 1.99)):
        amax = mantissa * 2.0**exponent
        scale = float(scale_for(made, tf.constant(amax), margin))
        assert np.log2(scale) % 1 == 0
        assert amax * scale <= made.largest * 2.0**-margin < 2 * amax * scale


@pytest.mark.parametrize("amax", [0.0, np.inf, np.nan])
def test_without_a_known_magnitude_the_scale_is_1(amax):
    assert float(scale_for(E4M3, tf.constant(amax, tf.float32), 0)) == 1


@pytest.mark.parametrize("amax", [1e-45, 1e-38, 3e38])
def test_scales_and_their_inverses_are_normal_numbers(amax):
    scale = scale_for(E4M3, tf.constant(amax, tf.float32), 8)
    assert 2.0**-97 < float(scale) < 2.0**97

"""The two 8-bit floating-point formats, and rounding to them without 8-bit hardware.

Source: Micikevicius et al. 2022, "FP8 Formats for Deep Learning", arXiv:2209.05433, table 1.
"""

from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

Tensor = Any

FLOAT32_EXPONENT: Final = 0x7F800000
"""The bits of a float32 number that hold its exponent."""


@dataclass(frozen=True)
class Float8Format:
    """One format; its numbers are also float32, float16 and bfloat16 numbers."""

    name: str
    """As in ml_dtypes and TensorFlow."""
    mantissa_bits: int
    """Without the leading 1."""
    smallest_exponent: int
    """That of the smallest normal number."""
    largest: float

    @property
    def dtype(self) -> Any:
        """The dtype of TensorFlow."""
        return getattr(tf.dtypes.experimental, self.name)


E4M3: Final = Float8Format("float8_e4m3fn", 3, -6, 448.0)
"""For activations and weights: more precision. It has no infinity."""
E5M2: Final = Float8Format("float8_e5m2", 2, -14, 57344.0)
"""For gradients: more range."""


def round_to(float8: Float8Format, values: Tensor) -> Tensor:
    """Round float32 numbers to the nearest ones of a format, ties to even.

    Numbers beyond the largest become the largest (saturation); infinities and NaN become NaN, so
    that the check for finite gradients finds them.

    Args:
        float8: The format.
        values: Float32, of any shape.

    Returns:
        Float32 numbers that the format can represent.
    """
    saturated = tf.clip_by_value(values, -float8.largest, float8.largest)
    spacing = tf.maximum(_power_of_two(saturated), 2.0**float8.smallest_exponent)
    spacing *= 2.0**-float8.mantissa_bits
    # The division is exact, because the spacing is a power of two; tf.round ties to even.
    rounded = tf.round(saturated / spacing) * spacing
    return tf.where(tf.math.is_finite(values), rounded, float("nan"))


def quantize(float8: Float8Format, values: Tensor, scale: Tensor, *, native: bool) -> Tensor:
    """Round `values` × `scale` to a format and divide by `scale` again.

    Args:
        float8: The format.
        values: Of a floating dtype and any shape.
        scale: A power of two, float32: scaling is then exact, and so are the products of two such
            tensors in float32.
        native: Store the rounded numbers in 8 bits. On a device with float8, XLA multiplies such
            tensors in 8 bits; the values are the same.

    Returns:
        Float32.
    """
    wide = tf.cast(values, tf.float32)
    scaled = tf.clip_by_value(wide * scale, -float8.largest, float8.largest)
    rounded = round_to(float8, tf.where(tf.math.is_finite(wide), scaled, float("nan")))
    if native:
        rounded = tf.cast(tf.cast(rounded, float8.dtype), tf.float32)
    return rounded / scale


def scale_for(float8: Float8Format, amax: Tensor, margin: int) -> Tensor:
    """The largest power of two by which `amax` can be multiplied within the range of a format.

    Source: Transformer Engine, `DelayedScaling`: FP8_MAX / amax / 2^margin; here rounded down to a
    power of two.

    Args:
        float8: The format.
        amax: The largest magnitude, float32; 0 or not finite: the scale is 1.
        margin: The powers of two that are left free for larger numbers.
    """
    is_usable = tf.logical_and(amax > 0.0, tf.math.is_finite(amax))
    scale = _power_of_two(float8.largest / tf.where(is_usable, amax, 1.0)) * 2.0**-margin
    # Within these bounds the inverse is a normal number, too.
    return tf.where(is_usable, tf.clip_by_value(scale, 2.0**-96, 2.0**96), 1.0)


def largest_magnitude(values: Tensor) -> Tensor:
    """The largest magnitude of all elements, a float32 scalar; 0 without elements."""
    # reduce_max of no elements is -inf.
    return tf.maximum(tf.reduce_max(tf.abs(tf.cast(values, tf.float32))), 0.0)


def _power_of_two(values: Tensor) -> Tensor:
    """The largest power of two up to each magnitude; 0 for 0 and subnormal numbers."""
    bits = tf.bitcast(values, tf.int32)
    return tf.bitcast(tf.bitwise.bitwise_and(bits, FLOAT32_EXPONENT), tf.float32)

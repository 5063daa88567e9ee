"""Histograms of exponents, and the effect of a number format at each loss scale.

Source: Micikevicius et al. 2018, arXiv:1710.03740, figure 3.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ampspec.telemetry.ranges.number_formats import FLOAT16, NumberFormat

SCALE_EXPONENTS: Final = range(-10, 25)
"""The exponents of the loss scales in a scale table."""


class FormatShares(NamedTuple):
    """The shares of the finite values other than 0 that a format cannot represent well."""

    underflow: float
    """Rounded to 0."""
    subnormal: float
    """Kept with reduced precision."""
    overflow: float
    """Rounded to infinity, or to NaN in a format without infinity."""


@dataclass
class ExponentHistogram:
    """The number of values of each exponent: `counts[e]` of them lie in [2^e, 2^(e+1)).

    Zeros and non-finite values are counted separately; `largest` is the largest finite
    magnitude.
    """

    counts: dict[int, int] = field(default_factory=dict)
    zeros: int = 0
    not_finite: int = 0
    largest: float = 0.0

    @classmethod
    def of(cls, values: NDArray[Any], weight: int = 1) -> Self:
        """The histogram of an array of floats; each of its values counts `weight` times."""
        magnitudes = np.abs(values.astype(np.float64, copy=False).ravel())
        finite = magnitudes[np.isfinite(magnitudes)]
        positive = finite[finite > 0]
        # frexp's mantissa is in [0.5, 1).
        exponents, counts = np.unique(np.frexp(positive)[1] - 1, return_counts=True)
        return cls(
            dict(zip(exponents.tolist(), (weight * counts).tolist(), strict=True)),
            weight * (len(finite) - len(positive)),
            weight * (len(magnitudes) - len(finite)),
            float(finite.max(initial=0.0)),
        )

    @property
    def size(self) -> int:
        """The number of all values, zeros and non-finite ones included."""
        return sum(self.counts.values()) + self.zeros + self.not_finite

    def __add__(self, histogram: Self) -> Self:
        """The histogram of the values of both."""
        exponents = self.counts.keys() | histogram.counts.keys()
        counts = {e: self.counts.get(e, 0) + histogram.counts.get(e, 0) for e in exponents}
        return type(self)(
            dict(sorted(counts.items())),
            self.zeros + histogram.zeros,
            self.not_finite + histogram.not_finite,
            max(self.largest, histogram.largest),
        )

    def shares(self, exponent: int, number_format: NumberFormat = FLOAT16) -> FormatShares:
        """The shares of the values times 2^`exponent` that the format cannot represent well.

        Within a power of two only the largest value is known: values in that of the format's
        largest number count as overflows in the share of it that overflows, as if they were
        distributed evenly, but not if the largest value still fits. A value of exactly half the
        format's smallest number underflows without being counted.
        """
        total = sum(self.counts.values())
        if not total:
            return FormatShares(0.0, 0.0, 0.0)
        scaled = {e + exponent: count for e, count in self.counts.items()}
        low, normal = number_format.underflow_exponent, number_format.min_normal_exponent
        underflow = sum(count for e, count in scaled.items() if e <= low)
        subnormal = sum(count for e, count in scaled.items() if low < e < normal)
        overflow = sum(
            count * self._overflow_share(e, exponent, number_format) for e, count in scaled.items()
        )
        return FormatShares(underflow / total, subnormal / total, overflow / total)

    def mean_squared_error(self, exponent: int, number_format: NumberFormat = FLOAT16) -> float:
        """The mean squared error of rounding the values times 2^`exponent`, over their mean square.

        Values are taken as distributed evenly within each power of two, and values that overflow
        as saturated at the format's largest number. 0 without values other than 0.

        Source: the error of a value rounded to a spacing d has the variance d²/12 (Widrow and
        Kollár 2008, Quantization Noise).
        """
        error = signal = 0.0
        # Relative to the largest exponent, so that no square leaves float64.
        top = max(self.counts, default=0)
        for e, count in self.counts.items():
            square = 4.0 ** (e - top) * _MEAN_SQUARE
            signal += count * square
            error += count * _squared_error(e + exponent, number_format) * 4.0 ** (e - top)
        return error / signal if signal else 0.0

    def _overflow_share(self, e: int, exponent: int, number_format: NumberFormat) -> float:
        """The share of the scaled values with exponent `e` that overflow."""
        if e != number_format.max_exponent:
            return 1.0 if e > number_format.max_exponent else 0.0
        if self.largest * 2.0**exponent < number_format.overflow_threshold:
            return 0.0
        return 2.0 - number_format.overflow_threshold / 2.0**e

    def to_json(self) -> dict[str, Any]:
        """The histogram as JSON values; `counts` starts at `first_exponent`."""
        first = min(self.counts, default=0)
        last = max(self.counts, default=-1)
        return {
            "first_exponent": first,
            "counts": [self.counts.get(e, 0) for e in range(first, last + 1)],
            "zeros": self.zeros,
            "not_finite": self.not_finite,
            "largest": self.largest,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The histogram that `to_json` wrote."""
        counts = enumerate(document["counts"], start=document["first_exponent"])
        return cls(
            {exponent: count for exponent, count in counts if count},
            document["zeros"],
            document["not_finite"],
            document["largest"],
        )


_MEAN_SQUARE: Final = 7 / 3
"""The mean square of numbers distributed evenly in [1, 2)."""


@cache
def _squared_error(e: int, number_format: NumberFormat) -> float:
    """The mean squared error of rounding numbers evenly in [2^e, 2^(e+1)), over 4^e."""
    if e <= number_format.underflow_exponent:
        return _MEAN_SQUARE
    if e == number_format.min_subnormal_exponent - 1:
        # All round up to the smallest number, 2 × 2^e: the mean of (2 - x)² over [1, 2).
        return 1 / 3
    if e > number_format.max_exponent:
        largest = number_format.largest / 2.0**e
        return _MEAN_SQUARE - 3 * largest + largest**2
    rounded: float = (number_format.spacing(e) / 2.0**e) ** 2 / 12
    if e < number_format.max_exponent:
        return rounded
    # Above the largest number the error grows to that of saturation.
    largest = number_format.largest / 2.0**e
    return rounded * (largest - 1) + (2 - largest) ** 3 / 3


MAX_UNDERFLOW_SHARE: Final = 0.001
"""The largest share of the values that may underflow at a suggested loss scale."""
OVERFLOW_HEADROOM: Final = 2.0
"""The factor by which gradients may exceed the largest so far without an overflow."""


class ScaleSuggestion(NamedTuple):
    """The exponents of suitable loss scales; there are none if `lowest` is above `highest`."""

    lowest: int
    """At this scale at most MAX_UNDERFLOW_SHARE of the values underflow."""
    highest: int
    """At this scale every value may grow by OVERFLOW_HEADROOM before it overflows."""


def suggest_scales(
    gradients: ExponentHistogram,
    largest: float = 0.0,
    exponents: range = SCALE_EXPONENTS,
    number_format: NumberFormat = FLOAT16,
) -> ScaleSuggestion | None:
    """The suitable loss scales for these gradients; None if all gradients are 0.

    `largest` is the magnitude of other values multiplied by the loss scale, such as the
    gradients by the layers' outputs. Neither exponent leaves `exponents`.
    """
    if not gradients.counts:
        return None
    fits = number_format.largest / (OVERFLOW_HEADROOM * max(largest, gradients.largest))
    highest = min(max(math.floor(math.log2(fits)), exponents[0]), exponents[-1])
    kept = (
        e for e in exponents if gradients.shares(e, number_format).underflow <= MAX_UNDERFLOW_SHARE
    )
    return ScaleSuggestion(next(kept, exponents[-1]), highest)

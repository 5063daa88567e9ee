"""Histograms of gradient exponents, and their underflow and overflow at each loss scale.

Source: Micikevicius et al. 2018, arXiv:1710.03740, figure 3.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

MAX_EXPONENT: Final = 15
"""The exponent of the largest float16 numbers: they lie below 2^16."""
MIN_NORMAL_EXPONENT: Final = -14
"""The exponent of the smallest normal float16 numbers."""
UNDERFLOW_EXPONENT: Final = -26
"""The exponent of numbers that round to 0: below 2^-25, half of the smallest float16 number."""

SCALE_EXPONENTS: Final = range(-10, 25)
"""The exponents of the loss scales in a scale table."""


class Float16Shares(NamedTuple):
    """The shares of the finite values other than 0 that float16 cannot represent well."""

    underflow: float
    """Rounded to 0."""
    subnormal: float
    """Kept with fewer bits than the others."""
    overflow: float
    """Rounded to infinity."""


@dataclass
class ExponentHistogram:
    """The number of values of each exponent: `counts[e]` of them lie in [2^e, 2^(e+1)).

    Zeros and values that are not finite are counted apart; `largest` is the largest finite
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

    def __add__(self, other: Self) -> Self:
        """The histogram of the values of both."""
        both = self.counts.keys() | other.counts.keys()
        counts = {e: self.counts.get(e, 0) + other.counts.get(e, 0) for e in both}
        return type(self)(
            dict(sorted(counts.items())),
            self.zeros + other.zeros,
            self.not_finite + other.not_finite,
            max(self.largest, other.largest),
        )

    def shares(self, exponent: int) -> Float16Shares:
        """The shares of the values times 2^`exponent` that float16 cannot represent well.

        It considers only exponents: a value of exactly 2^-25 underflows without being counted, and
        one from 65520 to 65536 overflows without being counted.
        """
        total = sum(self.counts.values())
        if not total:
            return Float16Shares(0.0, 0.0, 0.0)
        scaled = {e + exponent: count for e, count in self.counts.items()}
        underflow = sum(count for e, count in scaled.items() if e <= UNDERFLOW_EXPONENT)
        subnormal = sum(
            count for e, count in scaled.items() if UNDERFLOW_EXPONENT < e < MIN_NORMAL_EXPONENT
        )
        overflow = sum(count for e, count in scaled.items() if e > MAX_EXPONENT)
        return Float16Shares(underflow / total, subnormal / total, overflow / total)

    def to_json(self) -> dict[str, Any]:
        """The counts as a list that begins with those of `first_exponent`."""
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


MAX_UNDERFLOW_SHARE: Final = 0.001
"""The largest share of the values that may underflow at a suggested loss scale."""
OVERFLOW_HEADROOM: Final = 2.0
"""How much larger than any seen so far a gradient may become without an overflow."""


class ScaleSuggestion(NamedTuple):
    """The exponents of suitable loss scales; there are none if `lowest` is above `highest`."""

    lowest: int
    """At this scale at most MAX_UNDERFLOW_SHARE of the values underflow."""
    highest: int
    """At this scale every value may grow by OVERFLOW_HEADROOM before it overflows."""


def suggest_scales(
    gradients: ExponentHistogram, largest: float = 0.0, exponents: range = SCALE_EXPONENTS
) -> ScaleSuggestion | None:
    """The suitable loss scales for these gradients; None if all gradients are 0.

    `largest` is the magnitude of other values that the loss scale makes larger, such as the
    gradients by the layers' outputs. Neither exponent leaves `exponents`.
    """
    if not gradients.counts:
        return None
    fits = float(np.finfo(np.float16).max) / (OVERFLOW_HEADROOM * max(largest, gradients.largest))
    highest = min(max(math.floor(math.log2(fits)), exponents[0]), exponents[-1])
    kept = (e for e in exponents if gradients.shares(e).underflow <= MAX_UNDERFLOW_SHARE)
    return ScaleSuggestion(next(kept, exponents[-1]), highest)

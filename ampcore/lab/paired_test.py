"""Is a policy as accurate as float32? Paired differences over seeds against a noise band.

A run with another seed ends at another metric. That spread is the noise of the training itself: a
difference inside of it does not matter, since nobody chooses a seed. So two one-sided paired t
tests (equivalence testing) compare the mean difference with the band; the ordinary t test, which
asks whether the difference is exactly 0, would call every policy worse if only there are enough
seeds, and equal if there are few.

Source: Schuirmann 1987, "A comparison of the two one-sided tests procedure and the power approach";
sample sizes as in Cohen 1988, "Statistical power analysis", section 2.4.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final, Literal

from ampcore.lab import student_t

Verdict = Literal["equal", "worse", "better", "cannot tell"]

TEST: Final = "two one-sided paired t tests (TOST) at the level 0.05 each"
LEVEL: Final = 0.05
"""The probability of a wrong `equal`, and of a wrong `worse` or `better`."""
CONFIDENCE: Final = 1.0 - 2.0 * LEVEL
"""Of the interval that decides both one-sided tests."""
POWER: Final = 0.8
"""The probability with which the recommended number of seeds decides."""
BAND_DEVIATIONS: Final = 1.96
"""95 % of the results of a normal distribution lie within so many standard deviations."""
MAX_SEEDS: Final = 1000
ROUNDING: Final = 1e-12
"""Differences of this share of the values themselves are rounding of the metrics."""


@dataclass(frozen=True)
class NoiseBand:
    """How far results of float32 lie apart when only the seed changes."""

    mean: float
    deviation: float
    """The standard deviation over the seeds."""
    half_width: float
    """A difference of at most this is inside the band."""

    @classmethod
    def of(cls, values: Sequence[float], margin: float = 0.0) -> "NoiseBand":
        """The band of the results of at least two seeds, and at least `margin` wide."""
        deviation = stdev(values)
        rounding = ROUNDING * max(abs(value) for value in values)
        return cls(fmean(values), deviation, max(BAND_DEVIATIONS * deviation, margin, rounding))


@dataclass(frozen=True)
class PairedComparison:
    """The mean difference of a policy from float32, its interval, and what follows."""

    verdict: Verdict
    difference: float
    """The mean of policy - float32, in the unit of the metric."""
    interval: tuple[float, float] | None
    """Contains the true difference with 90 % confidence; None for one pair."""
    pairs: int
    more_seeds: int | None = None
    """How many further seeds would probably decide; None if it is decided, or if more than
    `MAX_SEEDS` were needed."""


def compare(
    differences: Sequence[float], band: NoiseBand, *, higher_is_better: bool
) -> PairedComparison:
    """Compare a policy with float32.

    Args:
        differences: policy - float32 of each seed, at least one.
        band: the noise band of the float32 runs.
        higher_is_better: whether a larger metric is a better one.
    """
    mean, pairs = fmean(differences), len(differences)
    if pairs < 2:
        return PairedComparison("cannot tell", mean, None, pairs, more_seeds=1)
    deviation = stdev(differences)
    half_width = student_t.quantile(1.0 - LEVEL, pairs - 1) * deviation / math.sqrt(pairs)
    interval = (mean - half_width, mean + half_width)
    verdict = _verdict(mean, interval, band.half_width, higher_is_better=higher_is_better)
    more = None
    if verdict == "cannot tell":
        needed = seeds_needed(mean, deviation, band.half_width)
        more = None if needed is None else max(needed - pairs, 1)
    return PairedComparison(verdict, mean, interval, pairs, more)


def seeds_needed(mean: float, deviation: float, half_width: float) -> int | None:
    """The number of seeds that decides with a probability of 80 %; None beyond `MAX_SEEDS`.

    It assumes that the mean and the deviation of the differences stay as they are.
    """
    inside = abs(mean) <= half_width
    distance = half_width - abs(mean) if inside else abs(mean)
    # The interval must stay inside of both bounds of the band: half of the failures at each.
    power = (1.0 + POWER) / 2.0 if inside else POWER

    def decides(seeds: int) -> bool:
        both = student_t.quantile(1.0 - LEVEL, seeds - 1) + student_t.quantile(power, seeds - 1)
        return both * deviation / math.sqrt(seeds) <= distance

    # With more seeds the interval only gets narrower, so the first number that decides is found
    # by bisection.
    found = 2 + bisect_left(range(2, MAX_SEEDS + 1), True, key=decides)
    return found if found <= MAX_SEEDS else None


def _verdict(
    mean: float, interval: tuple[float, float], half_width: float, *, higher_is_better: bool
) -> Verdict:
    low, high = interval
    if -half_width <= low and high <= half_width:
        return "equal"
    if abs(mean) <= half_width or low <= 0.0 <= high:
        return "cannot tell"
    return "better" if (mean > 0.0) == higher_is_better else "worse"

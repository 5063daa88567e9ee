"""Is a policy as accurate as float32? The interval of the mean difference against a margin.

A policy is equal if the whole interval lies within the margin (equivalence testing): that is proven
by the data, and not concluded from a lack of it. It is worse or better if the interval excludes 0
and it is not equal. A difference within the margin, which is real and larger than what another seed
changes, is not called equal, unless the user set the margin.

The margin is not the spread of float32 over seeds: that of few seeds is luck, and where it is wide,
a policy that always loses a point would be inside.

Source: Schuirmann 1987, "A comparison of the two one-sided tests procedure and the power approach";
sample sizes as in Cohen 1988, "Statistical power analysis", section 2.4.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final, Literal

from ampspec.objectives.metrics import is_share
from ampspec.studies.statistics.mean_difference import MeanDifference

Verdict = Literal["equal", "worse", "better", "cannot tell"]

TEST: Final = "paired t tests over seeds and validation examples, one-sided at the level 0.02"
LEVEL: Final = 0.02
"""The probability of a wrong `equal` at a difference of the margin, and half of that of a wrong
`worse` or `better`."""
CONFIDENCE: Final = 1.0 - 2.0 * LEVEL
"""The confidence of the interval that decides."""
POWER: Final = 0.8
"""The probability with which the recommended number of seeds decides."""
BAND_DEVIATIONS: Final = 1.96
"""Standard deviations that contain 95 % of the results of a normal distribution."""
MAX_SEEDS: Final = 1000
SHARE_MARGIN: Final = 0.01
"""One point: the margin of metrics from 0 to 1."""
RELATIVE_MARGIN: Final = 0.05
"""The margin of other metrics, as a share of float32's value."""
ROUNDING: Final = 1e-12
"""Differences of this share of the values themselves are rounding of the metrics."""


@dataclass(frozen=True)
class NoiseBand:
    """The spread of float32 results when only the seed changes."""

    mean: float
    deviation: float
    """The standard deviation over the seeds."""
    half_width: float
    """A difference of at most this is inside the band."""

    @classmethod
    def of(cls, values: Sequence[float], margin: float = 0.0) -> "NoiseBand":
        """The band of the results of at least two seeds, at least `margin` wide."""
        deviation = stdev(values)
        rounding = ROUNDING * max(abs(value) for value in values)
        return cls(fmean(values), deviation, max(BAND_DEVIATIONS * deviation, margin, rounding))


def default_margin(metric: str, float32: float) -> float:
    """The largest difference that does not matter, of a metric with this value in float32."""
    return SHARE_MARGIN if is_share(metric) else RELATIVE_MARGIN * abs(float32)


@dataclass(frozen=True)
class PairedComparison:
    """The mean difference of a policy from float32, its interval and the verdict."""

    verdict: Verdict
    difference: float
    """The mean of policy - float32, in the unit of the metric."""
    interval: tuple[float, float] | None
    """Contains the true difference with 96 % confidence; None for one pair."""
    pairs: int
    more_seeds: int | None = None
    """The number of further seeds that would probably decide; None if decided, or if more than
    `MAX_SEEDS` are needed."""
    examples: int | None = None
    """The number of validation examples that would probably decide with the same seeds; None if
    decided or not known."""
    by_example: bool = False
    """Whether the validation examples were compared, and not only the means of the seeds."""


def compare(
    difference: MeanDifference,
    band: NoiseBand,
    margin: float,
    *,
    higher_is_better: bool,
    is_asked: bool = False,
) -> PairedComparison:
    """Compare a policy with float32.

    Args:
        difference: policy - float32.
        band: The noise band of the float32 runs.
        margin: A difference of at most this does not matter.
        higher_is_better: Whether a larger metric is a better one.
        is_asked: Whether the user set the margin; then every difference within it is equal.
    """
    mean, pairs = difference.mean, difference.seeds
    if pairs < 2:
        return PairedComparison("cannot tell", mean, None, pairs, more_seeds=1)
    low, high = interval = difference.interval(LEVEL)
    rounding = ROUNDING * abs(band.mean)
    margin = max(margin, rounding)
    is_inside = -margin <= low and high <= margin
    excludes_zero = low > rounding or high < -rounding
    by_example = difference.examples is not None
    if is_inside and (is_asked or not excludes_zero or abs(mean) <= band.half_width):
        return PairedComparison("equal", mean, interval, pairs, by_example=by_example)
    if excludes_zero:
        verdict: Verdict = "better" if (mean > 0.0) == higher_is_better else "worse"
        return PairedComparison(verdict, mean, interval, pairs, by_example=by_example)
    seed_count = seeds_needed(difference, margin)
    return PairedComparison(
        "cannot tell",
        mean,
        interval,
        pairs,
        None if seed_count is None else max(seed_count - pairs, 1),
        _examples_needed(difference, margin),
        by_example,
    )


def seeds_needed(difference: MeanDifference, margin: float) -> int | None:
    """The number of seeds that decides with a probability of 80 %; None beyond `MAX_SEEDS`.

    It assumes that the mean and the variances of the differences stay as they are.
    """

    def decides(seeds: int) -> bool:
        return _needed_distance(difference, margin, seeds) <= _distance(difference, margin)

    # With more seeds the interval only gets narrower, so the first number that decides is found
    # by bisection.
    count = 2 + bisect_left(range(2, MAX_SEEDS + 1), True, key=decides)
    return count if count <= MAX_SEEDS else None


def _distance(difference: MeanDifference, margin: float) -> float:
    """The distance of the mean from the deciding bound: the margin for equal, else 0."""
    return max(margin - abs(difference.mean), abs(difference.mean))


def _needed_distance(difference: MeanDifference, margin: float, seeds: int) -> float:
    """The distance at which this number of seeds decides with probability `POWER`."""
    is_equal = margin - abs(difference.mean) >= abs(difference.mean)
    # The interval must stay inside of both bounds of the margin: half of the failures at each.
    power = (1.0 + POWER) / 2.0 if is_equal else POWER
    quantiles = difference.quantile(1.0 - LEVEL, seeds) + difference.quantile(power, seeds)
    return quantiles * difference.standard_error(seeds)


def _examples_needed(difference: MeanDifference, margin: float) -> int | None:
    """The number of validation examples that decide with the current seeds."""
    ratio = _needed_distance(difference, margin, difference.seeds) / _distance(difference, margin)
    return difference.examples_for(ratio)

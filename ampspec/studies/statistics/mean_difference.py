"""The mean difference of two policies over seeds and validation examples, and its variance.

Each seed trains a pair of models, and all models are evaluated on the same examples: a crossed
design, like readers and cases in radiology. The difference of one seed on one example is a mean,
an effect of the example (the policy is worse on it with every seed), an effect of the seed, and the
rest: examples near the decision boundary change with anything. The rest makes most of the spread of
an accuracy between seeds, and the examples measure it with many degrees of freedom; the spread of
three means alone would have two. How much larger the spread of whole trainings is comes from the
means of float32, of the policy and of their differences together.

Sources: Obuchowski and Rockette 1995, "Hypothesis testing of diagnostic accuracy for multiple
readers and multiple tests"; Hillis 2007, "A comparison of denominator degrees of freedom methods
for multiple observer ROC analysis"; Jordan 2023, "Calibrated chaos: variance between runs of neural
network training is harmless and inevitable", arXiv:2304.01910, for the spread between seeds as that
of independent examples; Hanley and Lippman-Hand 1983, "If nothing goes wrong, is everything all
right?", for few examples that differ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Final

from ampspec.studies.statistics import student_t

MAX_DEGREES: Final = 1000
Table = Sequence[Sequence[float]]
"""By seed, the value of each example."""


@dataclass(frozen=True)
class MeanDifference:
    """policy - float32 over seeds, at least one, in the unit of the metric.

    Attributes:
        mean: The mean over all seeds.
        seeds: The number of seeds.
        seed_variance: The variance of the difference of one seed; more seeds average it out.
        example_variance: The variance of the mean over the choice of examples, which more seeds do
            not change.
        degrees: The degrees of freedom of `seed_variance`.
        examples: The number of examples; None: the difference is known only by seed.
        sampled_variance: Of one pair, `example_variance` without what the examples may not show.
    """

    mean: float
    seeds: int
    seed_variance: float
    example_variance: float
    degrees: int
    examples: int | None = None
    sampled_variance: float | None = None

    @classmethod
    def of_seeds(cls, differences: Sequence[float]) -> "MeanDifference":
        """Estimate from the difference of each seed alone."""
        seeds = len(differences)
        spread = variance(differences) if seeds > 1 else math.inf
        return cls(fmean(differences), seeds, spread, 0.0, max(seeds - 1, 1))

    @classmethod
    def of_examples(
        cls, float32: Table, policy: Table, examples: int, *, is_share: bool
    ) -> "MeanDifference":
        """Estimate from the values of each example, or of groups of them, of at least two seeds.

        Args:
            float32: The values of float32 by seed and example.
            policy: The same for the policy.
            examples: The number of examples.
            is_share: Whether values are from 0 to 1, as for accuracy.
        """
        differences = [
            [ours - theirs for ours, theirs in zip(*rows, strict=True)]
            for rows in zip(policy, float32, strict=True)
        ]
        seeds, columns = len(differences), len(differences[0])
        parts = [_Squares.of(table) for table in (differences, float32, policy)]
        squares = parts[0]
        ratios = [part.seeds / part.residual for part in parts if part.residual > 0.0]
        if squares.residual > 0.0:
            # Floored: the examples alone already make the spread that independent ones have.
            spread, degrees = squares.residual * max(fmean(ratios), 1.0), 2 * (seeds - 1)
        else:
            spread, degrees = squares.seeds, seeds - 1
        of_examples = max(squares.examples - squares.residual, 0.0) / (columns * seeds)
        if is_share:
            of_examples = max(of_examples, _unseen(examples))
        mean = fmean(map(fmean, differences))
        return cls(mean, seeds, spread / columns, of_examples, degrees, examples)

    @classmethod
    def of_pair(
        cls, differences: Sequence[float], examples: int, *, mean: float, is_share: bool
    ) -> "MeanDifference":
        """Estimate for two trained models as they are: only the examples are a sample.

        Args:
            differences: Of each example, or of groups of them.
            examples: The number of examples.
            mean: Of all examples; an incomplete group is not among the differences.
            is_share: Whether values are from 0 to 1, as for accuracy.
        """
        count = len(differences)
        sampled = variance(differences) / count if count > 1 else math.inf
        of_examples = max(sampled, _unseen(examples)) if is_share else sampled
        return cls(mean, 1, 0.0, of_examples, max(count - 1, 1), examples, sampled)

    def standard_error(self, seeds: int | None = None) -> float:
        """The standard error of the mean with this number of seeds; None: the current number."""
        return math.sqrt(self.seed_variance / (seeds or self.seeds) + self.example_variance)

    def examples_for(self, ratio: float) -> int | None:
        """The number of examples that reduce the standard error by this factor.

        None if the difference is known only by seed.
        """
        if self.examples is None or not math.isfinite(self.example_variance):
            return None
        if self.sampled_variance is not None:
            by_sample = ratio**2 * self.sampled_variance / self.example_variance
            by_unseen = ratio * math.sqrt(_unseen(self.examples) / self.example_variance)
            return math.ceil(self.examples * max(by_sample, by_unseen, 1.0))
        # The unseen part shrinks with the number of examples, all else with its root.
        of_seeds, unseen = self.seed_variance / self.seeds, _unseen(self.examples)
        is_unseen = of_seeds < self.example_variance == unseen
        return math.ceil(self.examples * max(ratio, 1.0) ** (1 if is_unseen else 2))

    def quantile(self, probability: float, seeds: int | None = None) -> float:
        """A quantile of the t distribution of the mean."""
        count = seeds or self.seeds
        degrees = float(self.degrees)
        if self.seeds > 1:
            degrees *= (count - 1) / (self.seeds - 1)
        of_seeds = self.seed_variance / count
        if of_seeds > 0.0 and math.isfinite(of_seeds):
            degrees *= ((of_seeds + self.example_variance) / of_seeds) ** 2
        elif self.example_variance > 0.0 and self.seeds > 1:
            degrees = MAX_DEGREES
        return student_t.quantile(probability, max(1, min(int(degrees), MAX_DEGREES)))

    def interval(self, level: float) -> tuple[float, float]:
        """The interval that misses the true difference on each side with probability `level`."""
        error = self.standard_error()
        half_width = self.quantile(1.0 - level) * error if error > 0.0 else 0.0
        return self.mean - half_width, self.mean + half_width


@dataclass(frozen=True)
class _Squares:
    """The mean squares of a table: between seeds, between examples, and residual."""

    seeds: float
    examples: float
    residual: float

    @classmethod
    def of(cls, table: Table) -> "_Squares":
        rows, columns = len(table), len(table[0])
        by_seed = [fmean(row) for row in table]
        by_example = [math.fsum(column) / rows for column in zip(*table, strict=True)]
        mean = fmean(by_seed)
        residual = math.fsum(
            (value - seed_mean - example_mean + mean) ** 2
            for row, seed_mean in zip(table, by_seed, strict=True)
            for value, example_mean in zip(row, by_example, strict=True)
        )
        return cls(
            columns * math.fsum((value - mean) ** 2 for value in by_seed) / (rows - 1),
            rows * math.fsum((value - mean) ** 2 for value in by_example) / max(columns - 1, 1),
            residual / ((rows - 1) * max(columns - 1, 1)),
        )


UNSEEN: Final = 3.6
"""So that the interval holds up to ln(50) examples that differ where none did: a policy that fails
on such a share of all examples fails on none of these with a probability of 2 %."""


def _unseen(examples: int) -> float:
    return UNSEEN / examples**2

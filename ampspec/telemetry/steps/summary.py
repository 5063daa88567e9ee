"""Totals over all steps of a job, updated block by block."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ampspec.telemetry.steps.block import BlockStats

BINS_PER_OCTAVE: Final = 64
"""Throughputs within about 1% share a bin; the median is the mean of its bin."""
MAX_RATE: Final = 1e100
"""A higher rate comes from a step time rounded to almost 0; its sums may overflow."""


@dataclass
class ThroughputHistogram:
    """The number of steps at each throughput, in memory that does not grow with the run."""

    _steps: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    _totals: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, examples: float, seconds: float, steps: int) -> None:
        """Count `steps` that processed `examples` in `seconds`."""
        if steps > 0 and seconds > 0 and 0 < (rate := examples / seconds) < MAX_RATE:
            bin_index = math.floor(math.log2(rate) * BINS_PER_OCTAVE)
            self._steps[bin_index] += steps
            self._totals[bin_index] += rate * steps

    @property
    def median(self) -> float | None:
        """The median throughput over all steps, accurate to about 1%."""
        half, seen = sum(self._steps.values()) / 2, 0
        for bin_index in sorted(self._steps):
            seen += self._steps[bin_index]
            if seen >= half:
                return self._totals[bin_index] / self._steps[bin_index]
        return None

    def to_json(self) -> dict[str, Any]:
        """The number of steps and the sum of the throughputs of each bin."""
        return {
            str(bin_index): [steps, self._totals[bin_index]]
            for bin_index, steps in self._steps.items()
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The histogram that `to_json` wrote."""
        histogram = cls()
        for bin_index, (steps, total) in document.items():
            histogram._steps[int(bin_index)] = steps
            histogram._totals[int(bin_index)] = total
        return histogram


@dataclass
class StepSummary:
    """The totals of a job so far.

    `steps`, `skipped`, `duration_s` (compute time), `skipped_s` (the part of skipped steps) and
    `best_loss` (the smallest finite one) count each step up to the current one once. Steps that an
    earlier attempt computed after the checkpoint are computed again; the first computation counts
    in `repeated_steps` and `repeated_s`.
    """

    steps: int = 0
    skipped: int = 0
    duration_s: float = 0.0
    skipped_s: float = 0.0
    best_loss: float | None = None
    repeated_steps: int = 0
    repeated_s: float = 0.0
    throughput: ThroughputHistogram = field(default_factory=ThroughputHistogram)

    def add(self, steps: int, stats: BlockStats) -> None:
        """Add the sums of the next block."""
        self.steps += steps
        self.skipped += stats.skipped
        self.duration_s += stats.duration_s
        self.skipped_s += stats.skipped_s
        if stats.best_loss is not None:
            best_loss = stats.best_loss if self.best_loss is None else self.best_loss
            self.best_loss = min(best_loss, stats.best_loss)
        self.throughput.add(stats.examples, stats.duration_s, steps)

    def add_repeated(self, steps: int, stats: BlockStats) -> None:
        """Add a block whose steps have to be computed again."""
        self.repeated_steps += steps
        self.repeated_s += stats.duration_s

    @classmethod
    def from_json(cls, totals: Mapping[str, Any], throughput: Mapping[str, Any]) -> Self:
        """The summary with these `to_json` documents of its totals and its histogram.

        Empty mappings give the summary before the first step.
        """
        same = ("steps", "skipped", "skipped_s", "best_loss", "repeated_steps", "repeated_s")
        return cls(
            **{name: totals[name] for name in same if name in totals},
            duration_s=totals.get("steps_s", 0.0),
            throughput=ThroughputHistogram.from_json(throughput),
        )

    def to_json(self) -> dict[str, Any]:
        """The totals as the API returns them."""
        attempted = self.steps + self.repeated_steps
        return {
            "steps": self.steps,
            "skipped": self.skipped,
            "skipped_share": self.skipped / self.steps if self.steps else 0.0,
            "attempted_steps": attempted,
            "applied_steps": self.steps - self.skipped,
            "repeated_steps": self.repeated_steps,
            "skipped_s": self.skipped_s,
            "repeated_s": self.repeated_s,
            "steps_s": self.duration_s,
            "best_loss": self.best_loss,
            "median_examples_per_s": self.throughput.median,
        }

"""Tally: what the blocks of a job add up to, kept up to date block by block."""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from ampcore.series.block import Facts

BINS_PER_OCTAVE: Final = 64
"""Rates within about a hundredth of one another count as one; the median is that of their mean."""


@dataclass
class Rates:
    """Throughputs, and for how many steps each held; it does not grow with the run."""

    _steps: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    _totals: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, examples: float, seconds: float, steps: int) -> None:
        """So many steps saw so many examples in so many seconds."""
        if steps > 0 and seconds > 0 and examples > 0:
            rate = examples / seconds
            place = math.floor(math.log2(rate) * BINS_PER_OCTAVE)
            self._steps[place] += steps
            self._totals[place] += rate * steps

    @property
    def median(self) -> float | None:
        """The throughput that half of the steps reached, to about a hundredth."""
        half, seen = sum(self._steps.values()) / 2, 0
        for place in sorted(self._steps):
            seen += self._steps[place]
            if seen >= half:
                return self._totals[place] / self._steps[place]
        return None


@dataclass
class Tally:
    """What happened in a job so far.

    `steps`, `skipped`, `duration_s` (of the steps' computation), `skipped_s` (of it, those of the
    skipped steps) and `best_loss` (the least finite one) are of the steps that led to where the
    newest attempt is: each once. What earlier attempts did behind its checkpoint has to be done
    again, and counts in `repeated_steps` and `repeated_s`.
    """

    steps: int = 0
    skipped: int = 0
    duration_s: float = 0.0
    skipped_s: float = 0.0
    best_loss: float | None = None
    repeated_steps: int = 0
    repeated_s: float = 0.0
    rates: Rates = field(default_factory=Rates)

    def add(self, steps: int, facts: Facts) -> None:
        """Take a further block of so many steps into account."""
        self.steps += steps
        self.skipped += facts.skipped
        self.duration_s += facts.duration_s
        self.skipped_s += facts.skipped_s
        if facts.best_loss is not None:
            known = facts.best_loss if self.best_loss is None else self.best_loss
            self.best_loss = min(known, facts.best_loss)
        self.rates.add(facts.examples, facts.duration_s, steps)

    def repeat(self, steps: int, facts: Facts) -> None:
        """Take a block into account whose steps are done again."""
        self.repeated_steps += steps
        self.repeated_s += facts.duration_s

    def to_json(self) -> dict[str, Any]:
        """As it is shown with a job."""
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
            "median_examples_per_s": self.rates.median,
        }

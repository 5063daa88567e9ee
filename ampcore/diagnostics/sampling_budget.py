"""The share of a run's time that samples and explanations may take."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Clock = Callable[[], float]


class SamplingBudget:
    """Counts the time of a run, over its interruptions, and what was spent of it.

    Args:
        clock: Returns seconds since any fixed time.

    Attributes:
        spent_s: The seconds that were spent.
        last_s: The seconds that were spent last.
    """

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self._clock, self._began_at, self._run_before_s = clock, clock(), 0.0
        self.spent_s = self.last_s = 0.0

    @property
    def run_s(self) -> float:
        """The seconds of the run so far."""
        return self._run_before_s + self._clock() - self._began_at

    def allows(self, share: float, cost_s: float = 0.0, *, of_s: float | None = None) -> bool:
        """Whether something may be spent.

        Args:
            share: The share of the time that may be spent.
            cost_s: The expected cost.
            of_s: The time; None: that of the run so far.
        """
        return self.spent_s + cost_s <= share * (self.run_s if of_s is None else of_s)

    @contextmanager
    def spending(self) -> Iterator[None]:
        """A context whose time is spent."""
        began_at = self._clock()
        try:
            yield
        finally:
            self.spend(self._clock() - began_at)

    def spend(self, seconds: float) -> None:
        """Spend so many seconds."""
        self.last_s = seconds
        self.spent_s += seconds

    def to_json(self) -> dict[str, Any]:
        """The counters, for a checkpoint."""
        return {"spent_s": self.spent_s, "run_s": self.run_s}

    def restore(self, document: Mapping[str, Any]) -> None:
        """Restore what `to_json` wrote; what is not in it stays."""
        self._run_before_s = document.get("run_s", self.run_s)
        self._began_at = self._clock()
        self.spent_s = document.get("spent_s", self.spent_s)

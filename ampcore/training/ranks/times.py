"""The time that each rank takes for a step, how much of it is communication, and who is slow.

A rank that is slow itself waits for no one: the others wait for it. So its own time, without
communication, is the longest, although all of them take the same time for a step.
"""

from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from ampspec.documents.text import join_names
from ampspec.telemetry import Event, EventType

SLOW_RATIO: Final = 1.2
"""A rank is slow if its own time is this many times that of the others."""
MIN_STEPS: Final = 20
"""So many steps are observed before a rank is called slow."""


class RankTimes:
    """The sums over the steps of an attempt, without its first block, which contains tracing.

    Args:
        ranks: The number of ranks.
    """

    def __init__(self, ranks: int) -> None:
        self._steps = 0
        self._seconds = [0.0] * ranks
        self._communication_s = [0.0] * ranks
        self._reported: tuple[int, ...] = ()
        """The slow ranks of the last event."""

    def observe(self, steps: int, reports: Sequence[Sequence[float]]) -> None:
        """Add a block: of each rank the seconds that it took and those of its communication."""
        self._steps += steps
        for rank, (seconds, communication_s) in enumerate(reports):
            self._seconds[rank] += seconds
            self._communication_s[rank] += communication_s

    @property
    def slow_ranks(self) -> tuple[int, ...]:
        """The ranks that the others wait for."""
        if self._steps < MIN_STEPS or len(self._seconds) == 1:
            return ()
        seconds_alone = self._own_s()
        return tuple(
            rank
            for rank, seconds in enumerate(seconds_alone)
            if seconds > SLOW_RATIO * median(seconds_alone[:rank] + seconds_alone[rank + 1 :])
        )

    def changed_event(self, step: int) -> Event | None:
        """An event if the slow ranks are others than in the last event."""
        slow = self.slow_ranks
        if slow == self._reported:
            return None
        return self.event(step)

    def event(self, step: int) -> Event | None:
        """The times of all ranks; None before there are any."""
        if not self._steps:
            return None
        self._reported = self.slow_ranks
        return Event(EventType.RANKS, step, {**self.to_json(), "sentence": self._sentence()})

    def to_json(self) -> dict[str, Any]:
        """JSON values: the ranks with their times a step, the share of communication, the slow."""
        steps = max(self._steps, 1)
        rows = zip(self._seconds, self._communication_s, self._own_s(), strict=True)
        return {
            "steps": self._steps,
            "communication_share": _share(sum(self._communication_s), sum(self._seconds)),
            "slow_ranks": list(self.slow_ranks),
            "ranks": [
                {
                    "rank": rank,
                    "step_time_s": seconds / steps,
                    "own_time_s": own_s / steps,
                    "communication_share": _share(communication_s, seconds),
                }
                for rank, (seconds, communication_s, own_s) in enumerate(rows)
            ],
        }

    def _own_s(self) -> list[float]:
        rows = zip(self._seconds, self._communication_s, strict=True)
        return [max(seconds - communication_s, 0.0) for seconds, communication_s in rows]

    def _sentence(self) -> str:
        share = _share(sum(self._communication_s), sum(self._seconds))
        if not self.slow_ranks:
            return f"The ranks are equally fast; {share:.0%} of a step is communication."
        seconds = self._own_s()
        names = join_names([f"rank {rank}" for rank in self.slow_ranks])
        slowest = max(seconds[rank] for rank in self.slow_ranks)
        median_s = median(seconds)
        longer = f"{slowest / median_s:.1f} times as long" if median_s else "longer"
        communication = f"{share:.0%} of a step is communication"
        return f"The others wait for {names}, which computes {longer}; {communication}."


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0

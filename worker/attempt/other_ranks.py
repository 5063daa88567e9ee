"""OtherRanks: what an attempt, which runs rank 0, needs of the other ranks of its job."""

from collections.abc import Callable
from typing import Protocol

from worker.attempt.outcome import AttemptResult
from worker.attempt.rank import LocalRank
from worker.attempt.stop_reason import StopReason


class OtherRanks(Protocol):
    """The other ranks of an attempt; `worker.gangs.gang_leader.GangLeader` is one."""

    @property
    def first(self) -> LocalRank:
        """Rank 0."""

    def stop_reason(self) -> StopReason | None:
        """Why rank 0 must stop because of another rank; None while it need not."""

    def request_stop(self) -> None:
        """Request that all workers end the other ranks."""

    def conclude(
        self, result: AttemptResult | None, *, grace_s: float, may_wait: Callable[[], bool]
    ) -> AttemptResult | None:
        """Wait until all other ranks have ended; returns the result with the cause of a failure."""

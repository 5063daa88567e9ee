"""OtherRanks: what an attempt, which runs rank 0, needs of the other ranks of its job."""

from collections.abc import Callable
from typing import Any, Protocol

from worker.attempt.outcome import AttemptResult
from worker.attempt.stop_reason import StopReason
from worker.trainer.standby import Standby
from worker.trainer.trainer_process import TrainerProcess


class OtherRanks(Protocol):
    """The other ranks of an attempt; `worker.gangs.gang_leader.GangLeader` is one."""

    def start_rank_0(self, standby: Standby) -> TrainerProcess:
        """Request the process of rank 0."""

    def assignment(self) -> dict[str, Any]:
        """The part of rank 0's assignment that describes the gang."""

    def stop_reason(self) -> StopReason | None:
        """Why rank 0 must stop because of another rank; None while it need not."""

    def request_stop(self) -> None:
        """Request that all workers end the other ranks."""

    def conclude(
        self, result: AttemptResult | None, *, grace_s: float, may_wait: Callable[[], bool]
    ) -> AttemptResult | None:
        """Wait until all other ranks have ended; returns the result with the cause of a failure."""

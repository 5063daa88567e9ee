"""Why a trainer is stopped before it ends by itself, and how long it may take to stop."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from store.gangs import gangs
from store.jobs import jobs
from worker.attempt.telemetry_writer import TelemetryWriter
from worker.shutdown import Shutdown


class StopReason(Enum):
    """Why a trainer is stopped."""

    TIMEOUT = "runtime.timeout_s is reached"
    PAUSE = "a pause was requested"
    SHUTDOWN = "the worker is shutting down"
    RESIZE = "more ranks can start"
    RANK_FAILED = "another rank has failed"
    RANK_0 = "the worker of rank 0 requested it"
    RANK_ENDED = "another rank on its worker has ended"
    CANCEL = "a cancel was requested"
    SELF_FENCE = "the database was unreachable for too long"
    FENCED = "another attempt owns the job"

    @property
    def is_final(self) -> bool:
        """Whether the worker has lost the job: the trainer is killed without a grace period."""
        return self in (StopReason.SELF_FENCE, StopReason.FENCED)

    @property
    def is_request(self) -> bool:
        """Whether the trainer is asked to stop; else it ends by itself, or is killed."""
        return self is not StopReason.RANK_ENDED

    def outranks(self, earlier_reason: "StopReason") -> bool:
        """Whether it replaces a reason that came earlier; equal ranks do not."""
        return _RANK.get(self, 0) > _RANK.get(earlier_reason, 0)


_WITHOUT_CHECKPOINT: Final = (
    StopReason.CANCEL,
    StopReason.RANK_0,  # rank 0 alone saves one
    StopReason.RANK_ENDED,
    StopReason.SELF_FENCE,
    StopReason.FENCED,
)
_RANK: Final = {
    StopReason.RANK_ENDED: -1,
    StopReason.RANK_FAILED: 1,
    StopReason.CANCEL: 2,
    StopReason.SELF_FENCE: 3,
    StopReason.FENCED: 4,
}


@dataclass(frozen=True)
class PendingStop:
    """A trainer that is being stopped: the reason, and when it is killed (monotonic clock)."""

    stop_reason: StopReason | None = None
    kill_at: float = math.inf

    def updated(
        self, stop_reason: StopReason | None, *, grace_s: float, now: float
    ) -> "PendingStop":
        """Add a reason to stop; it never extends the time until the kill."""
        if stop_reason is None:
            return self
        kill_at = min(self.kill_at, now + (0 if stop_reason.is_final else grace_s))
        if self.stop_reason is not None and not stop_reason.outranks(self.stop_reason):
            return replace(self, kill_at=kill_at)
        return PendingStop(stop_reason, kill_at)

    @property
    def discards_steps(self) -> bool:
        """Whether the job needs no checkpoint of its last steps."""
        return self.stop_reason in _WITHOUT_CHECKPOINT

    def is_due(self, now: float) -> bool:
        """Whether the trainer must be killed now."""
        return now >= self.kill_at

    def remaining_s(self, now: float, *, at_most: float) -> float:
        """Seconds that the process may still take to end."""
        return min(max(self.kill_at - now, 0.0), at_most)


NOT_STOPPED: Final = PendingStop()


def fence_reason(writer: TelemetryWriter, self_fence_s: float) -> StopReason | None:
    """Why the worker has lost its lease, or may have lost it; None while it has it."""
    if writer.is_fenced:
        return StopReason.FENCED
    return StopReason.SELF_FENCE if writer.since_heartbeat_s > self_fence_s else None


@dataclass(frozen=True)
class StopConditions:
    """All sources of stop reasons: the server's requests, the worker's shutdown, and timeouts."""

    writer: TelemetryWriter
    shutting_down: Shutdown
    self_fence_s: float
    timeout_at: float = math.inf
    of_other_ranks: Callable[[], StopReason | None] = lambda: None
    """Why rank 0 of a gang must stop because of the other ranks."""

    def stop_reason(self) -> StopReason | None:
        """The highest-ranking reason to stop now; None when there is none."""
        writer = self.writer
        if (reason := fence_reason(writer, self.self_fence_s)) is not None:
            return reason
        conditions = {
            StopReason.CANCEL: writer.requested == jobs.CANCEL,
            StopReason.TIMEOUT: time.monotonic() >= self.timeout_at,
            StopReason.PAUSE: writer.requested == jobs.PAUSE,
            StopReason.SHUTDOWN: self.shutting_down.is_set(),
            StopReason.RESIZE: writer.requested == gangs.RESIZE,
        }
        reason = next((condition for condition, holds in conditions.items() if holds), None)
        gang_reason = self.of_other_ranks()
        takes_precedence = reason is None or (
            gang_reason is not None and gang_reason.outranks(reason)
        )
        return gang_reason if takes_precedence else reason

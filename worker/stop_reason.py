"""Why a trainer is stopped before it ends by itself, and how long it may take to stop."""

import math
import threading
import time
from dataclasses import dataclass
from enum import Enum
from typing import Final

from store import jobs
from worker.telemetry_writer import TelemetryWriter

GRACE_S: Final = 10.0
"""How long a trainer may take after SIGTERM to finish its block and save a checkpoint."""


class StopReason(Enum):
    """Why a trainer is stopped."""

    TIMEOUT = "runtime.timeout_s is reached"
    PAUSE = "a pause was requested"
    SHUTDOWN = "the worker is shutting down"
    CANCEL = "a cancel was requested"
    SELF_FENCE = "the database was unreachable for too long"
    FENCED = "another attempt owns the job"

    @property
    def is_final(self) -> bool:
        """Whether the worker has lost the job: the trainer is killed without a grace period."""
        return self in (StopReason.SELF_FENCE, StopReason.FENCED)

    def outranks(self, other: "StopReason") -> bool:
        """Whether it replaces a reason that came earlier; equal ranks do not."""
        return _RANK.get(self, 0) > _RANK.get(other, 0)


_RANK: Final = {StopReason.CANCEL: 1, StopReason.SELF_FENCE: 2, StopReason.FENCED: 3}


@dataclass(frozen=True)
class PendingStop:
    """A trainer that is being stopped: the reason, and when it is killed (monotonic clock)."""

    stop_reason: StopReason | None = None
    kill_at: float = math.inf

    def updated(
        self, stop_reason: StopReason | None, *, grace_s: float, now: float
    ) -> "PendingStop":
        """Add a reason to stop; it never extends the time until the kill."""
        if stop_reason is None or (
            self.stop_reason is not None and not stop_reason.outranks(self.stop_reason)
        ):
            return self
        return PendingStop(
            stop_reason, min(self.kill_at, now + (0 if stop_reason.is_final else grace_s))
        )

    def is_due(self, now: float) -> bool:
        """Whether the trainer must be killed now."""
        return now >= self.kill_at

    def remaining_s(self, now: float, *, at_most: float) -> float:
        """Seconds that the process may still take to end."""
        return min(max(self.kill_at - now, 0.0), at_most)


NOT_STOPPED: Final = PendingStop()


@dataclass(frozen=True)
class StopConditions:
    """All sources of stop reasons: the server's requests, the worker's shutdown, and timeouts."""

    writer: TelemetryWriter
    shutting_down: threading.Event
    self_fence_s: float
    timeout_at: float = math.inf

    def stop_reason(self) -> StopReason | None:
        """The highest-ranking reason to stop now; None when there is none."""
        writer = self.writer
        conditions = {
            StopReason.FENCED: writer.is_fenced,
            StopReason.SELF_FENCE: writer.since_heartbeat_s > self.self_fence_s,
            StopReason.CANCEL: writer.requested == jobs.CANCEL,
            StopReason.TIMEOUT: time.monotonic() >= self.timeout_at,
            StopReason.PAUSE: writer.requested == jobs.PAUSE,
            StopReason.SHUTDOWN: self.shutting_down.is_set(),
        }
        return next((stop_reason for stop_reason, holds in conditions.items() if holds), None)

"""Why an attempt is stopped before its trainer ends by itself, and how long that may take."""

import math
import threading
import time
from dataclasses import dataclass
from enum import Enum
from typing import Final

from store import jobs
from worker.relay import Relay

GRACE_S: Final = 10.0
"""How long a trainer may take to obey SIGTERM: to end its block, and to save."""


class Halt(Enum):
    """Why a trainer is stopped."""

    TIMEOUT = "it has had all the time that it may take"
    PAUSE = "a pause was asked for"
    SHUTDOWN = "the worker shuts down"
    CANCEL = "a cancel was asked for"
    SELF_FENCE = "the database was away for too long"
    FENCED = "the job is another attempt's"

    @property
    def is_final(self) -> bool:
        """Nothing that the trainer still says can be written down, so it is not waited for."""
        return self in (Halt.SELF_FENCE, Halt.FENCED)

    def outranks(self, other: "Halt") -> bool:
        """Whether it takes the place of a reason that is there already; among equals, none."""
        return _RANK.get(self, 0) > _RANK.get(other, 0)


_RANK: Final = {Halt.CANCEL: 1, Halt.SELF_FENCE: 2, Halt.FENCED: 3}


@dataclass(frozen=True)
class Stopping:
    """That a trainer is being stopped: why, and until when it may take its time."""

    halt: Halt | None = None
    kill_at: float = math.inf

    def joined(self, halt: Halt | None, *, grace_s: float, now: float) -> "Stopping":
        """With one more reason to stop; the time that was given is never made longer."""
        if halt is None or (self.halt is not None and not halt.outranks(self.halt)):
            return self
        return Stopping(halt, min(self.kill_at, now + (0 if halt.is_final else grace_s)))

    def is_due(self, now: float) -> bool:
        """Whether the time is over."""
        return now >= self.kill_at

    def left_s(self, now: float, *, at_most: float) -> float:
        """How long its process may still take to end."""
        return min(max(self.kill_at - now, 0.0), at_most)


NOT_STOPPING: Final = Stopping()


@dataclass(frozen=True)
class Orders:
    """Everybody who may stop an attempt: the server, the worker, and the clock."""

    relay: Relay
    shutting_down: threading.Event
    self_fence_s: float
    timeout_at: float = math.inf

    def halt(self) -> Halt | None:
        """The best reason to stop that there is."""
        relay = self.relay
        held = {
            Halt.FENCED: relay.is_fenced,
            Halt.SELF_FENCE: relay.silent_s > self.self_fence_s,
            Halt.CANCEL: relay.asked == jobs.CANCEL,
            Halt.TIMEOUT: time.monotonic() >= self.timeout_at,
            Halt.PAUSE: relay.asked == jobs.PAUSE,
            Halt.SHUTDOWN: self.shutting_down.is_set(),
        }
        return next((halt for halt, holds in held.items() if holds), None)

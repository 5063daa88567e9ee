"""Recovers a run that the guard stops: it fails, rolls back, or falls back to float32.

After a rollback the run continues with the next batches: repeating the same ones would fail again.
Which states are kept depends on the number of the step alone, so that a run with rollbacks can be
repeated.
"""

from dataclasses import dataclass
from typing import Any, Final

from ampcore.checkpoint.state import Arrays
from ampcore.spec import JobSpec
from ampcore.telemetry import Event, EventType
from ampcore.train.guard import GuardFailure

ROLLBACK_SCALE_FACTOR: Final = 0.5
MAX_ROLLBACKS: Final = 8
"""To one good state: the scale is 256 times smaller by then, so it is not the cause."""


@dataclass
class GoodState:
    """A state that a run can go back to, and the steps that were done then."""

    arrays: Arrays
    steps: int
    counters: dict[str, Any] | None = None
    """Those of a checkpoint of this state; None for one that came out of a checkpoint."""
    rollbacks: int = 0
    """How often the run has gone back to it."""


class Recovery:
    """Keeps the newest good state, and decides what a run that is stopped goes back to."""

    def __init__(self, spec: JobSpec, *, in_float32: bool = False) -> None:
        self._spec = spec
        self._every = spec.guard.keep_state_every_steps
        self.good: GoodState | None = None
        self.in_float32 = in_float32
        """The run has fallen back to float32 before."""

    @property
    def can_recover(self) -> bool:
        """Whether the run may go back to a good state: not when it is to fail, nor in float32."""
        return self._spec.guard.on_exceeded != "fail" and not self.in_float32

    def next_snapshot_step(self, done: int) -> int:
        """How many steps will be done when the next good state is to be kept."""
        if done >= self._every:
            return (done // self._every + 1) * self._every
        # Doubling: a run that is shorter than the interval has states to go back to as well.
        return min(1 << done.bit_length(), self._every)

    def is_due(self, done: int) -> bool:
        """Whether the state after so many steps is to be kept if it is good."""
        return self.next_snapshot_step(done - 1) == done

    def keep(self, good: GoodState) -> None:
        """Go back to this state from now on."""
        self.good = good

    def discard(self) -> None:
        """Forget the good state."""
        self.good = None

    def mark_float32_fallback(self) -> None:
        """Record that the run is in float32 now; it can go back no further."""
        self.in_float32, self.good = True, None

    def take_recovery_state(self, failure: GuardFailure) -> GoodState:
        """The state to go back to; raises the guard's error when there is nothing left to try."""
        good = self.good
        if good is None or not self.can_recover or good.rollbacks >= MAX_ROLLBACKS:
            raise failure.error(self._spec)
        good.rollbacks += 1
        return good


def rollback_event(failure: GuardFailure, good: GoodState, scale_after: float) -> Event:
    """The event of a rollback that was done."""
    message = (
        f"{failure.message}: rolled back to the weights and optimizer state after "
        f"{good.steps} steps; the loss scale is now {scale_after:.10g}."
    )
    return Event(
        EventType.ROLLBACK,
        failure.last_step,
        {
            "first_bad_step": failure.first_step,
            "steps_kept": good.steps,
            "rollbacks": good.rollbacks,
            "scale_after": scale_after,
            "message": message,
        },
    )


def fallback_event(failure: GuardFailure, good: GoodState, policy: str) -> Event:
    """The event of a fallback to float32 that was done."""
    message = (
        f"{failure.message}: the run continues in float32 from the weights and optimizer "
        f"state after {good.steps} steps."
    )
    return Event(
        EventType.FLOAT32_FALLBACK,
        failure.last_step,
        {
            "first_bad_step": failure.first_step,
            "steps_kept": good.steps,
            "policy_before": policy,
            "message": message,
        },
    )

"""Recovers a run after a guard failure: it fails, rolls back, or falls back to float32.

After a rollback the run continues with the next batches: repeating the same ones would fail again.
Which states are kept depends only on the step number, so that a run with rollbacks is reproducible.
"""

from dataclasses import dataclass
from typing import Any, Final

from ampcore.checkpoint.state import Arrays
from ampcore.training.run.guard import GuardFailure
from ampspec.telemetry import Event, EventType
from ampspec.training.run import RunSpec

ROLLBACK_SCALE_FACTOR: Final = 0.5
MAX_ROLLBACKS: Final = 8
"""Maximum rollbacks to one state: the scale is then 256 times smaller and not the cause."""


@dataclass
class GoodState:
    """A state for a rollback, and its number of completed steps."""

    arrays: Arrays
    steps: int
    counters: dict[str, Any] | None = None
    """The counters for a checkpoint of this state; None if it was read from a checkpoint."""
    rollbacks: int = 0
    """The number of rollbacks to it."""
    best: Arrays | None = None
    """The weights of the best evaluation until then, if the run keeps them."""


class Recovery:
    """Keeps the newest good state, and decides how to recover from a guard failure."""

    def __init__(self, spec: RunSpec, *, in_float32: bool = False) -> None:
        self._spec = spec
        self._every = spec.guard.keep_state_every_steps
        self.good_state: GoodState | None = None
        self.in_float32 = in_float32
        """Whether the run has already fallen back to float32."""

    @property
    def can_recover(self) -> bool:
        """Whether a rollback is possible: not with `on_exceeded: fail`, and not in float32."""
        return self._spec.guard.on_exceeded != "fail" and not self.in_float32

    def next_snapshot_step(self, done: int) -> int:
        """The number of steps after which the next good state is kept."""
        if done >= self._every:
            return (done // self._every + 1) * self._every
        # Doubling, so that runs shorter than the interval also have states for a rollback.
        return min(1 << done.bit_length(), self._every)

    def is_due(self, done: int) -> bool:
        """Whether to keep the state after `done` steps if it is good."""
        return self.next_snapshot_step(done - 1) == done

    def keep(self, good_state: GoodState) -> None:
        """Use this state for later rollbacks."""
        self.good_state = good_state

    def discard(self) -> None:
        """Forget the good state."""
        self.good_state = None

    def mark_float32_fallback(self) -> None:
        """Record that the run is in float32 now; there are no further rollbacks."""
        self.in_float32, self.good_state = True, None

    def take_recovery_state(self, failure: GuardFailure, diagnosis: str | None) -> GoodState:
        """The state for the recovery; the guard's error with the diagnosis if none is left.

        Raises:
            TrainingError: There is no state to go back to, or there were too many rollbacks.
        """
        good_state = self.good_state
        if good_state is None or not self.can_recover or good_state.rollbacks >= MAX_ROLLBACKS:
            raise failure.error(self._spec, diagnosis)
        good_state.rollbacks += 1
        return good_state


def rollback_event(failure: GuardFailure, good_state: GoodState, scale_after: float) -> Event:
    """The event of a rollback."""
    message = (
        f"{failure.message}: rolled back to the weights and optimizer state after "
        f"{good_state.steps} steps; the loss scale is now {scale_after:.10g}."
    )
    return Event(
        EventType.ROLLBACK,
        failure.last_step,
        {
            "first_bad_step": failure.first_step,
            "steps_kept": good_state.steps,
            "rollbacks": good_state.rollbacks,
            "scale_after": scale_after,
            "message": message,
        },
    )


def fallback_event(failure: GuardFailure, good_state: GoodState, policy: str) -> Event:
    """The event of a fallback to float32."""
    message = (
        f"{failure.message}: the run continues in float32 from the weights and optimizer "
        f"state after {good_state.steps} steps."
    )
    return Event(
        EventType.FLOAT32_FALLBACK,
        failure.last_step,
        {
            "first_bad_step": failure.first_step,
            "steps_kept": good_state.steps,
            "policy_before": policy,
            "message": message,
        },
    )

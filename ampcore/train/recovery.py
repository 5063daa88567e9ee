"""What happens when the guard finds that a run no longer learns: fail, go back, or go float32.

The steps go on either way: the next batches train the state that was good, because the same ones
would end as they did. Which states are kept depends on the number of the step alone, so that a
run with rollbacks can be repeated.
"""

from dataclasses import dataclass
from typing import Any, Final

from ampcore.series import Event, EventType
from ampcore.spec import JobSpec
from ampcore.train.guard import Trouble
from ampcore.train.state import Arrays

HALF: Final = 0.5
MOST_ROLLBACKS: Final = 8
"""To one good state: then the scale is 256 times smaller, and the cause is another one."""


@dataclass
class GoodState:
    """A state worth going back to, and the steps that were done then."""

    arrays: Arrays
    steps: int
    counters: dict[str, Any] | None = None
    """Those of a checkpoint of this state; None for one that came out of a checkpoint."""
    rollbacks: int = 0
    """How often the run has gone back to it."""


class Recovery:
    """Keeps the newest good state, and says what to do when the run does not go on as it is."""

    def __init__(self, spec: JobSpec, *, in_float32: bool = False) -> None:
        self._spec = spec
        self._every = spec.guard.keep_state_every_steps
        self.good: GoodState | None = None
        self.in_float32 = in_float32
        """The run has fallen back to float32 before."""

    @property
    def can_go_back(self) -> bool:
        """Whether the run may go back to a good state: not when it is to fail, nor in float32."""
        return self._spec.guard.on_exceeded != "fail" and not self.in_float32

    def next_step(self, done: int) -> int:
        """How many steps will be done when the next good state is to be kept."""
        if done >= self._every:
            return (done // self._every + 1) * self._every
        # Doubling: a run that is shorter than the interval has states to go back to as well.
        return min(1 << done.bit_length(), self._every)

    def is_due(self, done: int) -> bool:
        """Whether the state after so many steps is to be kept if it is good."""
        return self.next_step(done - 1) == done

    def keep(self, good: GoodState) -> None:
        """Go back to this state from now on."""
        self.good = good

    def release(self) -> None:
        """Let go of the good state."""
        self.good = None

    def fell_back(self) -> None:
        """The run is in float32 now, and there is no way back from there."""
        self.in_float32, self.good = True, None

    def way_back(self, trouble: Trouble) -> GoodState:
        """The state to go back to; raises the guard's error when there is nothing left to try."""
        good = self.good
        if good is None or not self.can_go_back or good.rollbacks >= MOST_ROLLBACKS:
            raise trouble.error(self._spec)
        good.rollbacks += 1
        return good


def rollback_event(trouble: Trouble, good: GoodState, scale_after: float) -> Event:
    """The event of a rollback that was done."""
    sentence = (
        f"{trouble.sentence}: the weights and the optimizer are back as they were after "
        f"{good.steps} steps, with a loss scale of {scale_after:.10g}."
    )
    return Event(
        EventType.ROLLBACK,
        trouble.last_step,
        {
            "first_bad_step": trouble.first_step,
            "steps_kept": good.steps,
            "rollbacks": good.rollbacks,
            "scale_after": scale_after,
            "message": sentence,
        },
    )


def fallback_event(trouble: Trouble, good: GoodState, policy: str) -> Event:
    """The event of a fallback to float32 that was done."""
    sentence = (
        f"{trouble.sentence}: the run goes on in float32, with the weights and the optimizer "
        f"as they were after {good.steps} steps."
    )
    return Event(
        EventType.FLOAT32_FALLBACK,
        trouble.last_step,
        {
            "first_bad_step": trouble.first_step,
            "steps_kept": good.steps,
            "policy_before": policy,
            "message": sentence,
        },
    )

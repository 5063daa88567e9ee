"""What happens when the guard finds that a run no longer learns: fail, go back, or go float32.

The steps go on either way: the next batches train the state that was good, because the same ones
would end as they did.
"""

from dataclasses import dataclass
from typing import Final

from ampcore.series import Event, EventType
from ampcore.spec import JobSpec
from ampcore.train.guard import Exceeded
from ampcore.train.state import Arrays

HALF: Final = 0.5
MOST_ROLLBACKS: Final = 8
"""To one good state: then the scale is 256 times smaller, and the cause is another one."""


@dataclass
class GoodState:
    """A state worth going back to, and the steps that were done then."""

    arrays: Arrays
    steps: int
    rollbacks: int = 0
    """How often the run has gone back to it."""


class Recovery:
    """Keeps the newest good state, where the guard may need one, and says what to do with it."""

    def __init__(self, spec: JobSpec, *, in_float32: bool = False) -> None:
        self._spec = spec
        self._good: GoodState | None = None
        self.in_float32 = in_float32
        """The run has fallen back to float32 before."""

    @property
    def needs_states(self) -> bool:
        """Whether good states are wanted: not when the run is to fail, or has no way back."""
        return self._spec.guard.on_exceeded != "fail" and not self.in_float32

    def keep(self, arrays: Arrays, steps: int) -> None:
        """A state in which no step in a row was bad."""
        self._good = GoodState(arrays, steps)

    def fell_back(self) -> None:
        """The run is in float32 now, and there is no way back from there."""
        self.in_float32, self._good = True, None

    def way_back(self, exceeded: Exceeded) -> GoodState:
        """The state to go back to; raises the guard's error when there is nothing left to try."""
        good = self._good
        if good is None or not self.needs_states or good.rollbacks >= MOST_ROLLBACKS:
            raise exceeded.error(self._spec)
        good.rollbacks += 1
        return good


def rollback_event(exceeded: Exceeded, good: GoodState, scale_after: float) -> Event:
    """The event of a rollback that was done."""
    sentence = (
        f"{exceeded.sentence}: the weights and the optimizer are back as they were after "
        f"{good.steps} steps, with a loss scale of {scale_after:.10g}."
    )
    return Event(
        EventType.ROLLBACK,
        exceeded.last_step,
        {
            "first_bad_step": exceeded.first_step,
            "steps_kept": good.steps,
            "rollbacks": good.rollbacks,
            "scale_after": scale_after,
            "message": sentence,
        },
    )


def fallback_event(exceeded: Exceeded, good: GoodState, policy: str) -> Event:
    """The event of a fallback to float32 that was done."""
    sentence = (
        f"{exceeded.sentence}: the run goes on in float32, with the weights and the optimizer "
        f"as they were after {good.steps} steps."
    )
    return Event(
        EventType.FLOAT32_FALLBACK,
        exceeded.last_step,
        {
            "first_bad_step": exceeded.first_step,
            "steps_kept": good.steps,
            "policy_before": policy,
            "message": sentence,
        },
    )

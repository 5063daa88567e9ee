"""Where the time of a training goes, by intervals: measured by the clock of its process.

An interval is at least two seconds and a twentieth of the training before it, so that a training of
any length has some hundred. What no clock has measured is `other_s`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ampspec.telemetry import Event, EventType, StepBlock
from ampspec.telemetry.activities import Activity

MIN_INTERVAL_S: Final = 2.0
SHARE: Final = 0.05
PAUSES: Final = {
    Activity.DIAGNOSING: "diagnostics_s",
    Activity.EVALUATING: "evaluation_s",
    Activity.SAVING: "checkpoint_s",
}


class StepTimes:
    """Adds up the times of a training, and makes an event of each interval.

    Args:
        input_s: Returns how long the run has waited for examples so far, in seconds.
        clock: Returns seconds, as `time.perf_counter`.
    """

    def __init__(
        self, input_s: Callable[[], float], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._read_input_s, self._clock = input_s, clock
        self._activity: Activity | None = None
        self._marked_at = self._began_at = clock()
        self._input_s = 0.0
        self._steps_s = self._telemetry_s = self._training_s = 0.0
        self._next_step: int | None = None
        self._clear()

    def enter(self, activity: Activity) -> None:
        """The run does this from now on."""
        self._mark()
        if self._activity is None or self._activity is Activity.COMPILING:
            self._clear()  # what was before the first step is no part of the steps
            self._began_at = self._marked_at
        self._activity = activity

    def add(self, block: StepBlock) -> None:
        """Count the steps of a block, which were trained since the block before."""
        block_s = float(block["step_time_s"].sum(dtype="float64"))
        if self._next_step is None:
            # Before the first block the rest of the time was that of the compiler.
            self._mark()
            self._training_s = min(self._training_s, block_s)
        self._next_step = block.end_step
        self._steps += len(block)
        self._steps_s += block_s

    @contextmanager
    def telemetry(self) -> Iterator[None]:
        """The time inside is that of writing telemetry."""
        began = self._clock()
        yield
        self._telemetry_s += self._clock() - began

    def event_if_due(self) -> Event | None:
        """The times since the last event, once they are long enough; call it after `add`."""
        self._mark()
        wall_s = self._training_s + sum(self._pauses_s.values())
        if not self._steps or wall_s < max(
            MIN_INTERVAL_S, SHARE * (self._marked_at - self._began_at)
        ):
            return None
        return self._take(wall_s)

    def last_event(self) -> Event | None:
        """The times since the last event, however short; None if no step was trained."""
        self._mark()
        wall_s = self._training_s + sum(self._pauses_s.values())
        return self._take(wall_s) if self._next_step is not None else None

    def _take(self, wall_s: float) -> Event:
        input_s = self._read_input_s()
        # Another runner, after a fallback to float32, counts from 0.
        waited_s = input_s - self._input_s if input_s >= self._input_s else input_s
        self._input_s = input_s
        waited_s = min(waited_s, self._steps_s)
        measured_s = {
            "compute_s": self._steps_s - waited_s,
            "input_s": waited_s,
            **self._pauses_s,
            "telemetry_s": self._telemetry_s,
        }
        other_s = max(wall_s - sum(measured_s.values()), 0.0)
        times = {
            name: round(value, 6) for name, value in {**measured_s, "other_s": other_s}.items()
        }
        end, steps = self._next_step or 0, self._steps
        self._clear()
        shares = ", ".join(
            f"{name.removesuffix('_s')} {100 * value / wall_s:.1f} %"
            for name, value in times.items()
            if value and wall_s
        )
        facts = {"first_step": end - steps, "steps": steps, "wall_s": round(wall_s, 6)}
        message = f"{steps} steps took {wall_s:.3g} s: {shares}."
        return Event(EventType.STEP_TIMES, end - 1, {**facts, **times, "message": message})

    def _mark(self) -> None:
        """Add the time since the last mark to what was done in it."""
        now = self._clock()
        seconds, self._marked_at = now - self._marked_at, now
        pause = PAUSES.get(self._activity) if self._activity is not None else None
        if pause is not None:
            self._pauses_s[pause] += seconds
        else:
            self._training_s += seconds

    def _clear(self) -> None:
        self._steps = 0
        self._steps_s = self._telemetry_s = self._training_s = 0.0
        self._pauses_s = dict.fromkeys(PAUSES.values(), 0.0)

"""Says what an attempt does: on its job, for people, and as spans of its trace."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from ampspec.telemetry.activities import Activity
from ampspec.telemetry.frames import Frame, FrameType
from worker.attempt.attempt_trace import AttemptTrace

MIN_S: Final = 0.5
"""An activity is written once it has lasted so long: an evaluation of each tenth of a second would
be as many transactions."""


class NoReport:
    """Says nothing: of ranks other than rank 0."""

    def enter(self, activity: Activity | None) -> None:
        """The attempt does this from now on; None: it is not known what."""

    def observe(self, frames: Sequence[Frame]) -> None:
        """Read from the frames of the trainer what it does; call it often, also without any."""


class ActivityReport(NoReport):
    """Reports the activities of one attempt, in the thread that runs it.

    Args:
        trace: Gets all of them.
        write: Writes one to the job; called only for those that last.
        clock: Returns seconds, as `time.monotonic`.
    """

    def __init__(
        self,
        trace: AttemptTrace,
        write: Callable[[Activity | None], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trace, self._write, self._clock = trace, write, clock
        self._current: Activity | None = None
        self._written: Activity | None = None
        self._began_at = clock()

    def enter(self, activity: Activity | None) -> None:
        """The attempt does this from now on; None: it is not known what."""
        self._trace.enter(activity)
        if activity is not self._current:
            self._current, self._began_at = activity, self._clock()

    def observe(self, frames: Sequence[Frame]) -> None:
        """Read from the frames of the trainer what it does; call it often, also without any."""
        for frame in frames:
            match frame.type:
                case FrameType.ACTIVITY:
                    self.enter(frame.header["activity"])
                case FrameType.STEPS:
                    self._trace.first_steps(frame.header["count"])
        if self._clock() - self._began_at >= MIN_S:
            self.write()

    def write(self) -> None:
        """Write the current activity to the job, if it is not written yet."""
        if self._current is not self._written:
            self._written = self._current
            self._write(self._current)

"""How fast a job steps, and so when it will be done."""

import time
from collections import deque

from ampclient.views import JobView

WINDOW = 120
"""Views that count; a minute of them at the usual two per second."""


class Pace:
    """The speed of one job over the last views of it."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    def see(self, job: JobView) -> None:
        """Take note of where the job stands now."""
        if self._seen and job.step < self._seen[-1][1]:
            self._seen.clear()  # a new attempt began further back
        # Before the first block there is only compilation, which says nothing of the speed.
        if job.step > 0:
            self._seen.append((time.monotonic(), job.step))

    def remaining_s(self, job: JobView) -> float | None:
        """Seconds to the last step; None while unknown, 0 for a job that has ended."""
        if job.state.is_terminal:
            return 0.0
        if len(self._seen) < 2 or job.total_steps is None:
            return None
        (first_s, first_step), (last_s, last_step) = self._seen[0], self._seen[-1]
        if last_step == first_step or last_s == first_s:
            return None
        return (job.total_steps - last_step) * (last_s - first_s) / (last_step - first_step)

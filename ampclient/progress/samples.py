"""Caches the sample of each watched job; fetches it again when the job has progressed."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ampclient._job.view import JobView
from ampclient.errors import AmpcoreError

if TYPE_CHECKING:
    from ampclient._telemetry.step_sample import StepSample

FetchSample = Callable[[JobView], "StepSample"]

EVERY_S: Final = 1.0


class SampleCache:
    """The latest sample of each job."""

    def __init__(self, sample_of: FetchSample | None) -> None:
        self._sample_of = sample_of
        self._samples: dict[str, StepSample] = {}
        self._asked: dict[str, tuple[float, tuple[int, int, bool]]] = {}

    def update(self, job: JobView) -> None:
        """Fetch the sample again if it may have changed, at most once a second.

        If that fails, the older sample stays and the next view tries again.
        """
        if self._sample_of is None or job.latest is None or not self._is_due(job):
            return
        self._asked[job.id] = (time.monotonic(), _position(job))
        try:
            self._samples[job.id] = self._sample_of(job)
        except AmpcoreError:
            del self._asked[job.id]

    def get(self, job_id: str) -> "StepSample | None":
        """The latest sample; None before the first."""
        return self._samples.get(job_id)

    def _is_due(self, job: JobView) -> bool:
        asked_s, position = self._asked.get(job.id, (-EVERY_S, None))
        if position == _position(job):
            return False
        return job.state.is_terminal or time.monotonic() - asked_s >= EVERY_S


def _position(job: JobView) -> tuple[int, int, bool]:
    return job.attempt, job.step, job.state.is_terminal

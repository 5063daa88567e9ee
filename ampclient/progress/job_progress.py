"""Tracks the progress of watched jobs: speed, remaining time, current attempt."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ampclient._display import formats
from ampclient._job.view import JobView
from ampspec.jobs import State

FirstStep = Callable[[JobView], int | None]
"""Returns the first step of a job's current attempt; None if unknown."""


WINDOW = 120
"""Number of views used for the speed: a minute at the usual two per second."""


def no_first_step(job: JobView) -> int | None:
    """The first step is unknown."""
    return None


class StepRate:
    """The speed of one job over its last views."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    def update(self, job: JobView) -> None:
        """Record the job's current step."""
        if self._seen and job.step < self._seen[-1][1]:
            self._seen.clear()  # a new attempt began further back
        # Before the first block the job only compiles, which must not count as training time.
        if job.step > 0:
            self._seen.append((time.monotonic(), job.step))

    def remaining_s(self, job: JobView) -> float | None:
        """Seconds to the last step; None while unknown, and for a job that has ended."""
        if job.state.is_terminal or len(self._seen) < 2 or job.total_steps is None:
            return None
        (first_s, first_step), (last_s, last_step) = self._seen[0], self._seen[-1]
        if last_step == first_step or last_s == first_s:
            return None
        return (job.total_steps - last_step) * (last_s - first_s) / (last_step - first_step)


@dataclass(frozen=True)
class JobProgress:
    """A view of a job, with the remaining seconds and the first step of its current attempt."""

    job: JobView
    remaining_s: float | None = None
    first_step: int | None = None
    alias: str | None = None

    @property
    def name(self) -> str:
        """The displayed name."""
        return formats.printable(self.alias or self.job.name)

    @property
    def attempt(self) -> str | None:
        """A note on an attempt after the first, while a worker runs the job."""
        if self.job.attempt < 2 or not self.job.state.is_active:
            return None
        if self.first_step is None:
            return f"attempt {self.job.attempt}"
        began = f"resumed at step {self.first_step}" if self.first_step else "restarted at step 0"
        return f"attempt {self.job.attempt}, {began}"

    @property
    def waiting_for(self) -> str | None:
        """Why the job makes no progress; None if it does."""
        match self.job.state:
            case State.QUEUED:
                return formats.printable(self.job.waiting or "waiting for a free worker")
            case State.PAUSED if not self.job.message:
                return "waiting to be resumed"
        return None


def distinct_names(jobs: Sequence[JobView]) -> dict[str, str]:
    """A short name for each of several jobs, by id: without their common first words.

    Jobs with the same name get their ids appended.
    """
    words = [job.name.split() for job in jobs]
    same = 0
    while len(jobs) > 1 and all(len(w) > same + 1 and w[same] == words[0][same] for w in words):
        same += 1
    names = {job.id: " ".join(w[same:]) for job, w in zip(jobs, words, strict=True)}
    all_names = list(names.values())
    return {
        id_: f"{name} {id_}" if all_names.count(name) > 1 else name for id_, name in names.items()
    }


class ProgressTracker:
    """The progress of all watched jobs."""

    def __init__(self, first_step_of: FirstStep, names: Mapping[str, str]) -> None:
        self._first_step_of = first_step_of
        self._names = names
        self._first_steps: dict[tuple[str, int], int | None] = {}
        self._step_rates: dict[str, StepRate] = {}

    def update(self, job: JobView) -> JobProgress:
        """The progress of a job, from this view and the earlier ones."""
        step_rate = self._step_rates.setdefault(job.id, StepRate())
        step_rate.update(job)
        alias = self._names.get(job.id)
        return JobProgress(job, step_rate.remaining_s(job), self._first_step(job), alias)

    def _first_step(self, job: JobView) -> int | None:
        """The first step of the current attempt; fetched once per attempt, when it trains."""
        key = (job.id, job.attempt)
        if job.attempt > 1 and job.state is State.RUNNING and key not in self._first_steps:
            self._first_steps[key] = self._first_step_of(job)
        return self._first_steps.get(key)

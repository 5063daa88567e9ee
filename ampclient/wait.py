"""Wait until jobs have ended, and report on the way."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from ampclient.errors import AmpcoreError, JobFailed, WaitTimeout
from ampclient.retry import POLLING_PATIENCE_S
from ampcore.spec import State

if TYPE_CHECKING:
    from ampclient.job import Job

POLL_S: Final = 0.5

Report = Callable[["Job"], object]
Progress = bool | Report
"""False: silent. True: bars on a terminal, lines elsewhere. A function: called with each view."""


def has_ended(job: "Job") -> bool:
    """What is usually waited for."""
    return job.state.is_terminal


def wait_for(
    jobs: Sequence["Job"],
    *,
    timeout_s: float | None = None,
    progress: Progress = False,
    raise_on_failure: bool = False,
    poll_s: float = POLL_S,
    done: "Callable[[Job], bool]" = has_ended,
) -> list["Job"]:
    """The same jobs once all are `done`. Raises WaitTimeout, or JobFailed where asked to."""
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    with _reporter(progress, jobs) as report:
        while True:
            jobs = [refreshed(job) for job in jobs]
            for job in jobs:
                report(job)
            open_jobs = [job for job in jobs if not done(job)]
            if not open_jobs:
                break
            _pause(poll_s, deadline_s, open_jobs)
    if raise_on_failure:
        _raise_for_failure(jobs)
    return list(jobs)


def refreshed(job: "Job") -> "Job":
    """The job as it is now; one that has ended is not asked for again."""
    return job if job.state.is_terminal else job.refresh(patience_s=POLLING_PATIENCE_S)


def _reporter(progress: Progress, jobs: Sequence["Job"]) -> AbstractContextManager[Report]:
    if not isinstance(progress, bool):
        return nullcontext(progress)
    if not progress:
        return nullcontext(lambda job: None)
    from ampclient.progress import show_progress

    by_id = {job.id: job for job in jobs}
    return show_progress(first_step_of=lambda view: _first_step(by_id[view.id], view.attempt))


def _first_step(job: "Job", number: int) -> int | None:
    """Where an attempt began; waiting goes on where that cannot be found out."""
    try:
        attempts = job.attempts()
    except AmpcoreError:
        return None
    return next((a.first_step for a in attempts if a.attempt == number), None)


def _pause(poll_s: float, deadline_s: float | None, open_jobs: Sequence["Job"]) -> None:
    left_s = poll_s if deadline_s is None else deadline_s - time.monotonic()
    if deadline_s is not None and left_s <= 0:
        states = ", ".join(f"{job.id} is {job.state}" for job in open_jobs)
        raise WaitTimeout(f"The time to wait is over: {states}.", jobs=open_jobs)
    time.sleep(min(poll_s, left_s))


def _raise_for_failure(jobs: Sequence["Job"]) -> None:
    for job in jobs:
        if job.state is not State.SUCCEEDED:
            why = f": {job.message}" if job.message else "."
            raise JobFailed(f"Job {job.id} ({job.name}) is {job.state}{why}", job=job)

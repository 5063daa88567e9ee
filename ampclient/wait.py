"""Wait until jobs have ended, and report on the way."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from ampclient.errors import JobFailed, WaitTimeout
from ampclient.retry import POLLING_PATIENCE_S
from ampcore.spec import State

if TYPE_CHECKING:
    from ampclient.job import Job

Report = Callable[["Job"], object]
Progress = bool | Report
"""False: silent. True: bars on a terminal, lines elsewhere. A function: called with each view."""


def wait_for(
    jobs: Sequence["Job"],
    *,
    timeout_s: float | None,
    progress: Progress,
    raise_on_failure: bool,
    poll_s: float,
) -> list["Job"]:
    """The same jobs once all have ended. Raises WaitTimeout, or JobFailed where asked to."""
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    with _reporter(progress) as report:
        while True:
            jobs = [refreshed(job) for job in jobs]
            for job in jobs:
                report(job)
            open_jobs = [job for job in jobs if not job.state.is_terminal]
            if not open_jobs:
                break
            _pause(poll_s, deadline_s, open_jobs)
    if raise_on_failure:
        _raise_for_failure(jobs)
    return list(jobs)


def refreshed(job: "Job") -> "Job":
    """The job as it is now; one that has ended is not asked for again."""
    return job if job.state.is_terminal else job.refresh(patience_s=POLLING_PATIENCE_S)


def _reporter(progress: Progress) -> AbstractContextManager[Report]:
    if not isinstance(progress, bool):
        return nullcontext(progress)
    if not progress:
        return nullcontext(lambda job: None)
    from ampclient.progress import show_progress

    return show_progress()


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

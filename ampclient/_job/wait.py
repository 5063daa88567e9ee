"""Waits until jobs have ended, and reports their progress."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeVar

from ampclient import _endpoints as endpoints
from ampclient._http.operations import run_sync
from ampclient._http.paging import TableList
from ampclient._http.retry import POLLING_RETRY_TIMEOUT_S
from ampclient._job.bound import BoundJob
from ampclient._job.view import JobView
from ampclient.errors import AmpcoreError, JobFailed, WaitTimeout
from ampspec.jobs import State

J = TypeVar("J", bound=BoundJob[Any])
POLL_S: Final = 0.5


def has_ended(job: JobView) -> bool:
    """The default condition: the job has ended."""
    return job.state.is_terminal


def wait_for(
    jobs: Sequence[J],
    *,
    timeout_s: float | None = None,
    progress: bool = False,
    on_progress: Callable[[J], object] | None = None,
    raise_on_failure: bool = False,
    poll_s: float = POLL_S,
    done: Callable[[J], bool] = has_ended,
) -> TableList[J]:
    """Wait until all jobs are `done`. Raises WaitTimeout, and JobFailed if requested."""
    waiting = wait_until(
        jobs,
        timeout_s=timeout_s,
        progress=progress,
        on_progress=on_progress,
        raise_on_failure=raise_on_failure,
        poll_s=poll_s,
        done=done,
    )
    return run_sync(waiting)


async def wait_until(
    jobs: Sequence[J],
    *,
    timeout_s: float | None,
    progress: bool,
    on_progress: Callable[[J], object] | None,
    raise_on_failure: bool,
    poll_s: float,
    done: Callable[[J], bool] = has_ended,
) -> TableList[J]:
    """As `wait_for`, as a coroutine, for Jobs and AsyncJobs."""
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    first_steps = _FirstSteps()
    with _display(progress, first_steps) as show:
        while True:
            jobs = [await refreshed(job) for job in jobs]
            for job in jobs:
                if progress:
                    await first_steps.fetch(job)
                show(job)
                if on_progress is not None:
                    on_progress(job)
            open_jobs = [job for job in jobs if not done(job)]
            if not open_jobs:
                break
            await open_jobs[0]._transport.sleep(_pause_s(poll_s, deadline_s, open_jobs))
    if raise_on_failure:
        _raise_for_failure(jobs)
    return TableList(jobs)


async def refreshed(job: J) -> J:
    """Fetch the job again, unless it has ended."""
    if job.state.is_terminal:
        return job
    request = endpoints.get_job(job.id)
    view = await job._transport.send(request, retry_timeout_s=POLLING_RETRY_TIMEOUT_S)
    return job._with_view(view)


class _FirstSteps:
    """The first steps of the jobs' current attempts, each fetched once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], int | None] = {}

    def of(self, job: JobView) -> int | None:
        """The first step of the current attempt; None if unknown."""
        return self._known.get((job.id, job.attempt))

    async def fetch(self, job: BoundJob[Any]) -> None:
        """Fetch it once a later attempt trains; errors are ignored."""
        key = (job.id, job.attempt)
        if job.attempt < 2 or job.state is not State.RUNNING or key in self._known:
            return
        try:
            attempts = await job._transport.send(endpoints.list_attempts(job.id))
        except AmpcoreError:
            attempts = []
        first = (a.first_step for a in attempts if a.attempt == job.attempt)
        self._known[key] = next(first, None)


def _display(
    progress: bool, first_steps: _FirstSteps
) -> AbstractContextManager[Callable[[JobView], object]]:
    """Bars on a terminal, lines elsewhere; without `progress`, nothing."""
    if not progress:
        return nullcontext(lambda job: None)
    from ampclient.progress import show_progress

    return show_progress(first_step_of=first_steps.of)


def _pause_s(poll_s: float, deadline_s: float | None, open_jobs: Sequence[JobView]) -> float:
    if deadline_s is None:
        return poll_s
    remaining_s = deadline_s - time.monotonic()
    if remaining_s <= 0:
        states = ", ".join(f"{job.id} is {job.state}" for job in open_jobs)
        raise WaitTimeout(f"Timed out waiting: {states}.", jobs=open_jobs)
    return min(poll_s, remaining_s)


def _raise_for_failure(jobs: Sequence[JobView]) -> None:
    for job in jobs:
        if job.state is not State.SUCCEEDED:
            why = f": {job.message}" if job.message else "."
            raise JobFailed(f"Job {job.id} ({job.name}) is {job.state}{why}", job=job)

"""Waits until jobs have ended, and reports their progress.

The server holds the requests until a job has changed or all have ended: one request at a time, for
all jobs together.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final, Generic, Literal, TypeVar

from ampclient import _endpoints as endpoints
from ampclient._endpoints import NO_WAIT, Wait
from ampclient._http.etags import EtagCache
from ampclient._http.operations import run_sync
from ampclient._http.paging import TableList
from ampclient._http.retry import POLLING_RETRY_TIMEOUT_S
from ampclient._job.bound import BoundJob
from ampclient._job.hold_limit import HoldLimit
from ampclient._job.view import JobView
from ampclient.errors import (
    AmpcoreError,
    ConnectionFailed,
    InvalidRequest,
    JobFailed,
    StatusError,
    WaitTimeout,
)
from ampspec.jobs import State

J = TypeVar("J", bound=BoundJob[Any])
T = TypeVar("T")
POLL_S: Final = 0.5
"""The shortest time between two requests: a running job changes about as often."""

Progress = bool | Callable[[J], object]
"""The type of `progress=` in version 0.5, until 0.7."""
OnOutage = Callable[[AmpcoreError], float]
"""Called with the error of a server that does not respond; returns the seconds until the next try,
or raises the error."""


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
    on_outage: OnOutage | None = None,
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
        on_outage=on_outage,
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
    on_outage: OnOutage | None = None,
) -> TableList[J]:
    """As `wait_for`, as a coroutine, for Jobs and AsyncJobs."""
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    sees_changes = progress or on_progress is not None or done is not has_ended
    updates = JobUpdates(
        jobs, "change" if sees_changes else "terminal", poll_s=poll_s, on_outage=on_outage
    )
    first_steps = _FirstSteps()
    with _display(progress, first_steps) as show:
        while True:
            jobs = await updates.next(deadline_s)
            for job in jobs:
                if progress:
                    await first_steps.fetch(job)
                show(job)
                if on_progress is not None:
                    on_progress(job)
            open_jobs = [job for job in jobs if not done(job)]
            if not open_jobs:
                break
            if deadline_s is not None and time.monotonic() >= deadline_s:
                states = ", ".join(f"{job.id} is {job.state}" for job in open_jobs)
                raise WaitTimeout(f"Timed out waiting: {states}.", jobs=open_jobs)
    if raise_on_failure:
        _raise_for_failure(jobs)
    return TableList(jobs)


async def refreshed(job: J) -> J:
    """The job as it is now, unless it has ended: a name of version 0.5, until 0.7."""
    if job.state.is_terminal:
        return job
    request = endpoints.get_job(job.id)
    current_job: J = await job._send(request, retry_timeout_s=POLLING_RETRY_TIMEOUT_S)
    return current_job


class JobUpdates(Generic[J]):
    """Fetches jobs again whenever one of them may have changed; one that has ended is kept.

    Args:
        jobs: The jobs, at least one.
        until: `terminal` if only their end matters: the requests are held longer.
        poll_s: The shortest time between two requests.
        on_outage: What to do if the server does not respond; None: try for a minute.
    """

    def __init__(
        self,
        jobs: Sequence[J],
        until: Literal["change", "terminal"],
        *,
        poll_s: float = POLL_S,
        on_outage: OnOutage | None = None,
    ) -> None:
        self._jobs = list(jobs)
        self._until = until
        self._poll_s = poll_s
        self._on_outage = on_outage
        self._requested_at_s: float | None = None
        self._server_can_wait = True
        self._hold_limit = HoldLimit()
        # A held request waits for a change since the views in here, whatever else reads the jobs.
        self._etag_cache = EtagCache()

    async def next(self, deadline_s: float | None = None) -> list[J]:
        """The jobs: at once at first, then when one of them may have changed, or after a while.

        It returns soon after `deadline_s`, a time of the monotonic clock. Raises ConnectionFailed
        or StatusError.
        """
        open_jobs = [job for job in self._jobs if not job.state.is_terminal]
        if open_jobs:
            is_first = self._requested_at_s is None
            if self._requested_at_s is not None:
                await self._pause(open_jobs[0], self._requested_at_s + self._poll_s, deadline_s)
            self._requested_at_s = time.monotonic()
            is_one_request = len(open_jobs) <= endpoints.JOBS_PER_REQUEST
            may_wait = self._until == "terminal" or (is_one_request and not is_first)
            wait = self._wait(deadline_s) if may_wait else NO_WAIT
            fetched = await self._fetch(open_jobs, wait)
            self._jobs = [fetched.get(job.id, job) for job in self._jobs]
        return self._jobs

    def _wait(self, deadline_s: float | None) -> Wait:
        hold_s = self._hold_limit.seconds()
        if deadline_s is not None:
            hold_s = max(0.0, min(hold_s, deadline_s - time.monotonic()))
        return Wait(hold_s, self._until)

    async def _pause(self, job: J, until_s: float, deadline_s: float | None) -> None:
        pause_s = min(until_s, deadline_s or until_s) - time.monotonic()
        if pause_s > 0:
            await job._transport.sleep(pause_s)

    async def _fetch(self, jobs: Sequence[J], wait: Wait) -> dict[str, J]:
        if self._server_can_wait:
            try:
                if len(jobs) == 1:
                    return {jobs[0].id: await self._get(jobs[0], wait)}
                return await self._get_together(jobs, wait)
            except InvalidRequest:  # a server before 0.6
                self._server_can_wait = False
        return {job.id: await self._get(job, NO_WAIT) for job in jobs}

    async def _get(self, job: J, wait: Wait) -> J:
        view = await self._send(job, partial(endpoints.get_job, job.id), wait)
        return _bound(view, job)

    async def _get_together(self, jobs: Sequence[J], wait: Wait) -> dict[str, J]:
        fetched: dict[str, J] = {}
        for first in range(0, len(jobs), endpoints.JOBS_PER_REQUEST):
            page = {job.id: job for job in jobs[first : first + endpoints.JOBS_PER_REQUEST]}
            views = await self._send(jobs[0], partial(endpoints.get_jobs, list(page)), wait)
            wait = NO_WAIT  # only the first of several requests is held
            fetched |= {view.id: _bound(view, page[view.id]) for view in views}
        missing = [job for job in jobs if job.id not in fetched]
        return fetched | {job.id: await self._get(job, NO_WAIT) for job in missing}

    async def _send(
        self, job: J, request: Callable[[Wait], endpoints.JsonRequest[T]], wait: Wait
    ) -> T:
        if wait.seconds > 0:
            try:
                return await job._transport.send(
                    request(wait), etag_cache=self._etag_cache, max_retries=0
                )
            except (ConnectionFailed, StatusError) as error:
                self._hold_limit.reduce(error)
        retry_timeout_s = POLLING_RETRY_TIMEOUT_S if self._on_outage is None else 0.0
        while True:
            try:
                return await job._transport.send(
                    request(NO_WAIT), retry_timeout_s=retry_timeout_s, etag_cache=self._etag_cache
                )
            except (ConnectionFailed, StatusError) as error:
                if self._on_outage is None:
                    raise
                delay_s = self._on_outage(error)
            await job._transport.sleep(delay_s)


def _bound(view: JobView, job: J) -> J:
    """The view as a job of the same class; its spec never changes."""
    if view.listed_spec is None:
        view = view.model_copy(update={"listed_spec": job.listed_spec})
    return job._with_view(view)


class _FirstSteps:
    """The first steps of the jobs' current attempts, each fetched once."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, int], int | None] = {}

    def of(self, job: JobView) -> int | None:
        """The first step of the current attempt; None if unknown."""
        return self._steps.get((job.id, job.attempt))

    async def fetch(self, job: BoundJob[Any]) -> None:
        """Fetch it once a later attempt trains; errors are ignored."""
        key = (job.id, job.attempt)
        if job.attempt < 2 or job.state is not State.RUNNING or key in self._steps:
            return
        try:
            attempts = await job._transport.send(endpoints.list_attempts(job.id))
        except AmpcoreError:
            attempts = []
        first = (a.first_step for a in attempts if a.attempt == job.attempt)
        self._steps[key] = next(first, None)


def _display(
    progress: bool, first_steps: _FirstSteps
) -> AbstractContextManager[Callable[[JobView], object]]:
    """Bars on a terminal, lines elsewhere; without `progress`, nothing."""
    if not progress:
        return nullcontext(lambda job: None)
    from ampclient.progress import show_progress

    return show_progress(first_step_of=first_steps.of)


def _raise_for_failure(jobs: Sequence[JobView]) -> None:
    for job in jobs:
        if job.state is not State.SUCCEEDED:
            why = f": {job.message}" if job.message else "."
            raise JobFailed(f"Job {job.id} ({job.name}) is {job.state}{why}", job=job)

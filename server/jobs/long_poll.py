"""Hold a read of jobs until they have changed or ended, so that clients need not poll.

While it is held, a request has no thread, no database session and no slot (server.http.admission).
It ends when its client leaves and when the server stops.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import anyio
from anyio import CancelScope
from fastapi import Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from ampspec.jobs import Problem, State
from server.deps import missing_job, principal_of, services_of
from server.errors import NotFound, RequestInvalid
from server.http.access import credentials
from server.http.access.authenticator import Authenticator
from server.http.admission.middleware import without_slot
from server.http.etag import matches_if_none_match, respond_unless_cached
from server.http.streaming.stream_limits import owner_of
from server.http.streaming.streams import Streams, authorization_check
from server.jobs.job_reader import JobReader
from server.jobs.job_watcher import JobWatcher
from server.jobs.jobs_response import JobsResponse
from server.metrics.request_times import waiting

MAX_WAIT_S: Final = 60.0
QUEUED_POLL_S: Final = 2.0
"""How often a queued job is read again: why it waits depends on other jobs and on workers."""


class Until(StrEnum):
    """What a request waits for."""

    CHANGE = "change"
    """A response with another ETag than that in If-None-Match."""
    TERMINAL = "terminal"
    """The end of all jobs, or the deletion of one."""


ReadJobs = Callable[[], Awaitable[JobsResponse]]


@dataclass(frozen=True)
class LongPoll:
    """Answers a read of jobs, at once or once they have changed or ended."""

    request: Request
    wait_s: float
    until: Until
    reader: JobReader
    watcher: JobWatcher
    streams: Streams
    authenticator: Authenticator

    async def read_job(self, job_id: str) -> JobsResponse:
        """The job, if the principal may see it. Raises NotFound."""
        job = await self.reader.read(job_id)
        if job is None or not principal_of(self.request).sees(job.project):
            raise await run_in_threadpool(self._missing_job, job_id)
        return job.response

    def _missing_job(self, job_id: str) -> NotFound:
        with self.reader.database.read() as session:
            return missing_job(session, principal_of(self.request), job_id)

    async def respond(self, job_ids: Collection[str], read: ReadJobs) -> Response:
        """The response of `read`, or 304; the last one that it returns while the request is held.

        Raises what `read` does, RequestInvalid without jobs to wait for, TooManyOpen, Unavailable,
        and Unauthorized if the token is revoked while the request is held.
        """
        if self.wait_s and not job_ids:
            raise RequestInvalid(
                [Problem("/query/id", "missing_value", "the jobs to wait for", "nothing")]
            )
        jobs = await read()
        if self.wait_s and not self._is_over(jobs):
            with CancelScope() as hold:
                client = asyncio.create_task(self._cancel_when_client_leaves(hold))
                try:
                    jobs = await self._hold(job_ids, read, jobs.states.keys())
                finally:
                    client.cancel()
        return respond_unless_cached(
            self.request, jobs.etag, lambda: Response(jobs.body, media_type="application/json")
        )

    async def _cancel_when_client_leaves(self, hold: CancelScope) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        hold.cancel()

    async def _hold(
        self, job_ids: Collection[str], read: ReadJobs, visible_ids: Set[str]
    ) -> JobsResponse:
        """The jobs once the request is to be answered, also if one of the visible is deleted."""
        ends_at = anyio.current_time() + self.wait_s
        is_allowed = authorization_check(self.request, self.authenticator)
        with (
            self.streams.waiting.one(owner_of(self.request)),
            self.watcher.watch(job_ids) as change,
        ):
            while True:
                change.clear()
                jobs = await read()
                is_over = self._is_over(jobs) or bool(visible_ids - jobs.states.keys())
                is_late = anyio.current_time() >= ends_at
                if is_over or is_late or self.streams.shutting_down.is_set():
                    return jobs
                async with without_slot(self.request.scope):
                    with waiting(self.request.scope), CancelScope(deadline=ends_at):
                        await self._wait(jobs, change)
                if not await is_allowed():
                    raise credentials.invalid_token_error(self.request.scope)

    async def _wait(self, jobs: JobsResponse, change: asyncio.Event) -> None:
        """Wait until it is worth reading the jobs again."""
        shutting_down = self.streams.shutting_down
        if self.until is Until.TERMINAL:
            while not (self.watcher.end_is_reached(jobs.states) or shutting_down.is_set()):
                change.clear()
                await self.streams.wait_for_update_or_shutdown(change)
        else:
            is_queued = State.QUEUED in jobs.states.values()
            with anyio.move_on_after(QUEUED_POLL_S if is_queued else MAX_WAIT_S):
                await self.streams.wait_for_update_or_shutdown(change)

    def _is_over(self, jobs: JobsResponse) -> bool:
        if self.until is Until.TERMINAL:
            return jobs.have_ended
        known_etags = self.request.headers.getlist("if-none-match")
        return not matches_if_none_match(known_etags, jobs.etag)


Wait = Annotated[
    float,
    Query(
        ge=0,
        le=MAX_WAIT_S,
        allow_inf_nan=False,
        description="Hold the request for up to this many seconds, until what `until` names.",
    ),
]
UntilParameter = Annotated[
    Until,
    Query(
        description="`change`: until the response has another ETag than If-None-Match; without "
        "that header it is sent at once. `terminal`: until all of its jobs have ended, or one is "
        "deleted."
    ),
]


async def long_poll(
    request: Request, wait: Wait = 0.0, until: UntilParameter = Until.CHANGE
) -> LongPoll:
    """Answers a read of jobs as the query parameters `wait` and `until` ask."""
    services = services_of(request)
    return LongPoll(
        request,
        wait,
        until,
        services.job_reader,
        services.job_watcher,
        services.streams,
        services.authenticator,
    )


LongPollDep = Annotated[LongPoll, Depends(long_poll)]

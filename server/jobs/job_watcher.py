"""Wake the requests that wait for jobs when these change: one query for all of them.

A notification (server.http.streaming.subscribe) names a job to read at once. Not every change has
one, and Redis may be unavailable: so all awaited jobs are also read every POLL_S. Nothing is read
while no request waits.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from typing import Final, NamedTuple

import anyio
import anyio.to_thread
from anyio import CapacityLimiter

from ampspec.jobs import TERMINAL
from server.errors import DATABASE_ERRORS
from server.http.streaming.subscribe import Subscriptions
from store.database import Database
from store.jobs import jobs

log = logging.getLogger(__name__)

POLL_S: Final = 1.0
"""How often all awaited jobs are read: the delay of a change without a notification."""
BATCH_DELAY_S: Final = 0.05
"""The pause after a notification: those of about the same time share one query."""
JOBS_PER_QUERY: Final = 1000


class JobVersion(NamedTuple):
    """What changes whenever a job's steps, state, fields, activity or uploads do; not its lease."""

    seq: int
    state: str
    activity: str | None
    uploading: str | None


class JobWatcher:
    """Watches the jobs that the requests of one application wait for."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._requests = Subscriptions()
        self._versions: dict[str, JobVersion | None] = {}
        """The last version that was read of each awaited job; None: it is deleted."""
        self._notified: set[str] = set()
        self._notification = asyncio.Event()
        self._thread = CapacityLimiter(1)
        self._task: asyncio.Task[None] | None = None

    def notify(self, job_id: str) -> None:
        """Read the job soon, if a request waits for it."""
        if job_id in self._requests:
            self._notified.add(job_id)
            self._notification.set()

    @contextmanager
    def watch(self, job_ids: Collection[str]) -> Iterator[asyncio.Event]:
        """An event that is set at each change of the jobs; the waiting request clears it.

        It is set for a job's first version, too: only the request knows which one it has read.
        """
        try:
            with self._requests.subscribe(*job_ids) as event:
                if self._task is None or self._task.done():
                    # An empty context: the queries belong to no single request.
                    self._task = asyncio.create_task(self._run(), context=Context())
                yield event
        finally:
            for job_id in job_ids:
                if job_id not in self._requests:
                    self._versions.pop(job_id, None)

    def end_is_reached(self, job_ids: Collection[str]) -> bool:
        """Whether all of these jobs, which are watched, have ended, or one of them is deleted."""
        unknown = JobVersion(0, "", None, None)
        versions = [self._versions.get(job_id, unknown) for job_id in job_ids]
        return any(version is None for version in versions) or all(
            version is not None and version.state in TERMINAL for version in versions
        )

    async def _run(self) -> None:
        """Read the watched jobs while there are any."""
        next_poll = anyio.current_time()
        while self._requests:
            with anyio.move_on_after(next_poll - anyio.current_time()):
                await self._notification.wait()
                await anyio.sleep(BATCH_DELAY_S)
            job_ids = [job_id for job_id in self._notified if job_id in self._requests]
            if anyio.current_time() >= next_poll:
                job_ids, next_poll = list(self._requests), anyio.current_time() + POLL_S
            self._notified.clear()
            self._notification.clear()
            for first in range(0, len(job_ids), JOBS_PER_QUERY):
                await self._read(job_ids[first : first + JOBS_PER_QUERY])

    async def _read(self, job_ids: Sequence[str]) -> None:
        try:
            versions = await anyio.to_thread.run_sync(self._query, job_ids, limiter=self._thread)
        except DATABASE_ERRORS as error:
            log.warning("requests that wait for jobs see no change: %s", error)
            return
        for job_id in job_ids:
            version = versions.get(job_id)
            if job_id not in self._versions or self._versions[job_id] != version:
                if job_id in self._requests:  # the last request may have left meanwhile
                    self._versions[job_id] = version
                self._requests.notify(job_id)

    def _query(self, job_ids: Sequence[str]) -> dict[str, JobVersion]:
        with self._database.autocommit() as connection:
            rows = jobs.versions(connection, job_ids)
        return {row.id: JobVersion(row.seq, row.state, row.activity, row.uploading) for row in rows}

"""Jobs as they stand now, read for everybody who asks at one moment together.

While one question is under way, whoever asks waits for the next, which names all their jobs: a
crowd of pollers costs the database one question at a time, and nobody is told what was true before
they asked.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from server.http.etag import etag_of
from server.views import Job
from store import jobs
from store.database import Database
from store.queue import why_waiting


@dataclass(frozen=True)
class Standing:
    """An answer that is ready to be sent to whoever may see it."""

    project: str
    etag: str
    body: bytes


Answer = asyncio.Future[Standing | None]


class Reads:
    """Reads jobs for the requests of one application."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._asked: dict[str, Answer] = {}
        self._reading: asyncio.Task[None] | None = None

    async def read(self, job_id: str) -> Standing | None:
        """The job by what is committed when this is called, or later; None: there is none."""
        answer = self._asked.get(job_id)
        if answer is None:
            answer = self._asked[job_id] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(_look_at)
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_all())
        return await asyncio.shield(answer)  # others wait for it too

    async def _read_all(self) -> None:
        while self._asked:
            asked, self._asked = self._asked, {}
            try:
                found = await run_in_threadpool(self._look, list(asked))
            except Exception as error:
                for answer in asked.values():
                    answer.set_exception(error)
            else:
                for job_id, answer in asked.items():
                    answer.set_result(found.get(job_id))

    def _look(self, job_ids: Collection[str]) -> Mapping[str, Standing]:
        with self._database.look() as connection:
            rows = jobs.glance(connection, job_ids)
            return {row.id: _standing(Job.of(row, why_waiting(connection, row))) for row in rows}


def _standing(job: Job) -> Standing:
    body = job.model_dump_json(by_alias=True).encode()
    return Standing(job.project, etag_of(body), body)


def _look_at(answer: Answer) -> None:
    """An error that nobody waited for is no news."""
    if not answer.cancelled():
        answer.exception()

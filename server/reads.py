"""Jobs as they stand now, read for everybody who asks at one moment together."""

from collections.abc import Sequence
from dataclasses import dataclass

from server.http.etag import etag_of
from server.together import Together
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


class Reads:
    """Reads jobs for the requests of one application."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._together = Together(self._look)

    async def read(self, job_id: str) -> Standing | None:
        """The job by what is committed when this is called, or later; None: there is none."""
        return await self._together.ask(job_id)

    def _look(self, job_ids: Sequence[str]) -> Sequence[Standing | None]:
        with self._database.look() as connection:
            rows = jobs.glance(connection, set(job_ids))
            found = {row.id: _standing(Job.of(row, why_waiting(connection, row))) for row in rows}
        return [found.get(job_id) for job_id in job_ids]


def _standing(job: Job) -> Standing:
    body = job.model_dump_json(by_alias=True).encode()
    return Standing(job.project, etag_of(body), body)

"""Jobs as they stand now, read for everybody who asks at one moment together.

Why a queued job waits takes longer to find out than all the rest: that is done in rounds of its
own, so that nobody who asks for another job waits for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from server.http.etag import etag_of
from server.together import Together
from server.views import Job
from store.database import Database
from store.jobs import glance
from store.partial_rows import is_row_error, read_partially
from store.queue import is_queued, why_waiting


@dataclass(frozen=True)
class Standing:
    """An answer that is ready to be sent to whoever may see it."""

    project: str
    etag: str
    body: bytes


@dataclass(frozen=True)
class Queued:
    """The row of a queued job, of which it is still to be told why it waits."""

    row: Any


class Reads:
    """Reads jobs for the requests of one application."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looks: Together[str, Standing | Queued | None] = Together(self._look)
        self._queued: Together[Any, Standing] = Together(self._explain)

    async def read(self, job_id: str) -> Standing | None:
        """The job by what is committed when this is called, or later; None: there is none.

        What is wrong with one row is an error of those who ask for it alone.
        """
        found = await self._looks.ask(job_id)
        return await self._queued.ask(found.row) if isinstance(found, Queued) else found

    def _look(self, job_ids: Sequence[str]) -> Sequence[Standing | Queued | Exception | None]:
        with self._database.look() as connection:
            wanted = list(dict.fromkeys(job_ids))
            try:
                rows = glance(connection, wanted)
            except Exception as error:
                if not is_row_error(error):
                    raise
                rows = read_partially(connection, wanted)
        found = {row.id: Queued(row) if is_queued(row) else _standing(row) for row in rows}
        return [found.get(job_id) for job_id in job_ids]

    def _explain(self, rows: Sequence[Any]) -> Sequence[Standing | Exception]:
        waiting = {row.id: row for row in rows}
        with self._database.look() as connection:
            why = why_waiting(connection, list(waiting.values()))
        told = {job_id: _standing(row, why.get(job_id)) for job_id, row in waiting.items()}
        return [told[row.id] for row in rows]


def _standing(row: Any, waiting: str | None = None) -> Standing | Exception:
    try:
        job = Job.of(row, waiting)
        body = job.model_dump_json(by_alias=True).encode()
    except Exception as error:
        return error
    return Standing(job.project, etag_of(body), body)

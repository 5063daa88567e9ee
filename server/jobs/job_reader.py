"""Read single jobs: concurrent requests share one query.

Finding out why a queued job waits is the slowest part, so it has its own batches, and reads of
other jobs do not wait for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from server.jobs.jobs_response import JobsResponse
from server.request_batcher import RequestBatcher
from server.row_models import job_from_row
from store.damaged_rows import is_row_error, read_partially
from store.database import Database
from store.jobs.jobs import get_rows
from store.listing.waiting_reason import is_queued, why_waiting


@dataclass(frozen=True)
class EncodedJob:
    """The response for a job; the route checks that the principal may see the project."""

    project: str
    response: JobsResponse


@dataclass(frozen=True)
class QueuedRow:
    """The row of a queued job, whose response also says why it waits."""

    row: Any


class JobReader:
    """Reads jobs for the requests of one application."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._job_batches: RequestBatcher[str, EncodedJob | QueuedRow | None] = RequestBatcher(
            self._read_rows
        )
        self._queued_batches: RequestBatcher[Any, EncodedJob] = RequestBatcher(
            self._explain_waiting
        )

    async def read(self, job_id: str) -> EncodedJob | None:
        """The job as committed at the time of this call or later; None if there is none.

        A damaged row fails only the requests for that job.
        """
        job = await self._job_batches.submit(job_id)
        return await self._queued_batches.submit(job.row) if isinstance(job, QueuedRow) else job

    def _read_rows(
        self, job_ids: Sequence[str]
    ) -> Sequence[EncodedJob | QueuedRow | Exception | None]:
        with self.database.autocommit() as connection:
            distinct_ids = list(dict.fromkeys(job_ids))
            try:
                rows = get_rows(connection, distinct_ids)
            except Exception as error:
                if not is_row_error(error):
                    raise
                rows = read_partially(connection, distinct_ids)
        jobs = {row.id: QueuedRow(row) if is_queued(row) else _encode(row) for row in rows}
        return [jobs.get(job_id) for job_id in job_ids]

    def _explain_waiting(self, rows: Sequence[Any]) -> Sequence[EncodedJob | Exception]:
        waiting = {row.id: row for row in rows}
        with self.database.autocommit() as connection:
            why = why_waiting(connection, list(waiting.values()))
        encoded = {job_id: _encode(row, why.get(job_id)) for job_id, row in waiting.items()}
        return [encoded[row.id] for row in rows]


def _encode(row: Any, waiting: str | None = None) -> EncodedJob | Exception:
    try:
        job = job_from_row(row, waiting)
        body = job.model_dump_json(by_alias=True).encode()
    except Exception as error:
        return error
    return EncodedJob(job.project, JobsResponse.of(body, {job.id: job.state}))

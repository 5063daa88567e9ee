"""Read the steps of a job."""

from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from server.columns import json_pieces, read_names
from server.deps import DatabaseDep, JobId, StepReadersDep
from server.errors import NotFound
from server.openapi import problems
from server.views import Steps
from store import jobs, steps
from store.database import Database
from store.steps import Reading

router = APIRouter(prefix="/jobs/{job_id}/steps", tags=["steps"])

LAST_STEP = 2**53
Start = Annotated[int, Query(ge=0, le=LAST_STEP, description="The first step wanted.")]
End = Annotated[int | None, Query(ge=0, le=LAST_STEP, description="The step after the last one.")]
After = Annotated[
    int | None, Query(ge=-1, le=LAST_STEP, description="Only later steps: poll with `next`.")
]
Columns = Annotated[
    str | None, Query(max_length=4000, description="Names with commas between; `step` comes along.")
]
Limit = Annotated[int, Query(ge=1, le=100_000)]


@router.get(
    "", summary="Read the steps of a job", response_model=Steps, responses=problems(404, 422)
)
async def read(
    *,
    job_id: JobId,
    database: DatabaseDep,
    readers: StepReadersDep,
    start: Start = 0,
    end: End = None,
    after: After = None,
    columns: Columns = None,
    limit: Limit = 10_000,
) -> StreamingResponse:
    """Read every step in a range, exactly once, with what happened in it."""
    first = max(start, after + 1) if after is not None else start
    reading = await anyio.to_thread.run_sync(
        _read, database, job_id, first, end, limit, limiter=readers
    )
    block = reading.block.select(read_names(columns, reading.block))
    last = block.end_step - 1 if len(block) else after
    pieces = json_pieces(block, last=last, more=reading.more)
    return StreamingResponse(pieces, media_type="application/json")


def _read(database: Database, job_id: str, start: int, end: int | None, limit: int) -> Reading:
    with database.read() as session:
        if jobs.get(session, job_id) is None:
            raise NotFound(f"There is no job {job_id!r}.")
        return steps.read(session, job_id, start=start, end=end, limit=limit)

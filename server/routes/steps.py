"""Read the steps of a job."""

from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from server.deps import DatabaseDep, StepReadersDep, VisibleJobId
from server.openapi import problems
from server.streaming.columns import json_pieces, read_names
from server.views import Steps
from store import steps
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
Attempt = Annotated[
    int | None,
    Query(ge=1, le=2**31 - 1, description="As this attempt made them, superseded ones included."),
]
Limit = Annotated[int, Query(ge=1, le=100_000)]


@router.get("", summary="Read the steps of a job", response_model=Steps, responses=problems(404))
async def read(
    *,
    job_id: VisibleJobId,
    database: DatabaseDep,
    readers: StepReadersDep,
    start: Start = 0,
    end: End = None,
    after: After = None,
    columns: Columns = None,
    limit: Limit = 10_000,
    attempt: Attempt = None,
) -> StreamingResponse:
    """Read every step in a range, exactly once, with what happened in it."""
    first = max(start, after + 1) if after is not None else start
    wanted = {"start": first, "end": end, "limit": limit, "attempt": attempt}
    reading = await anyio.to_thread.run_sync(_read, database, job_id, wanted, limiter=readers)
    block = reading.block.select(read_names(columns, reading.block))
    last = block.end_step - 1 if len(block) else after
    pieces = json_pieces(block, last=last, more=reading.more)
    return StreamingResponse(pieces, media_type="application/json")


def _read(database: Database, job_id: str, wanted: dict[str, Any]) -> Reading:
    with database.read() as session:
        return steps.read(session, job_id, **wanted)

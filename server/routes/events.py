"""Read the ledger of a job."""

from typing import Annotated

from fastapi import APIRouter, Query

from server.deps import DatabaseDep, VisibleJobId
from server.openapi import problems
from server.views import Event, EventPage
from store import events

router = APIRouter(prefix="/jobs/{job_id}/events", tags=["events"])

After = Annotated[int, Query(ge=0, le=2**53, description="Only later events: poll with `next`.")]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("", summary="Read the events of a job", responses=problems(404))
def read(
    job_id: VisibleJobId, database: DatabaseDep, after: After = 0, limit: Limit = 100
) -> EventPage:
    """Read what happened to a job beside its steps, in order."""
    with database.read() as session:
        rows = events.read(session, job_id, after=after, limit=limit + 1)
        items = [Event.model_validate(row) for row in rows[:limit]]
    last = items[-1].seq if items else after
    return EventPage(items=items, next=last, more=len(rows) > limit)

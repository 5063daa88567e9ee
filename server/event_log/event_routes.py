"""Read the event log of a job."""

from typing import Annotated

from fastapi import Query, Request, Response

from ampspec.api.job.events import EventPage, JobEvent
from ampspec.telemetry import EventType
from server.deps import DatabaseDep, VisibleJobId
from server.documentation.openapi import ETAG_RESPONSES, problems
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse
from server.http.router import api_router
from server.row_models import from_row
from server.telemetry.steps_query import MAX_STEP
from store.telemetry import events

router = api_router("/jobs/{job_id}/events", tags=["events"])

After = Annotated[
    int,
    Query(
        alias="after",
        ge=0,
        le=2**53,
        description="Only events after this seq; to poll, pass `next`.",
    ),
]
Before = Annotated[
    int | None,
    Query(alias="before", ge=0, le=2**53, description="The newest events with seq < before."),
]
Limit = Annotated[int, Query(ge=1, le=1000)]
Types = Annotated[
    list[EventType],
    Query(description="Only events of these types; repeatable."),
]
Start = Annotated[
    int | None, Query(ge=0, le=MAX_STEP, description="Only events from this step on.")
]
End = Annotated[int | None, Query(ge=0, le=MAX_STEP, description="Only events before this step.")]


@router.get(
    "",
    summary="Read the events of a job",
    response_model=EventPage,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def read(
    *,
    job_id: VisibleJobId,
    database: DatabaseDep,
    request: Request,
    after_seq: After = 0,
    before_seq: Before = None,
    limit: Limit = 100,
    type: Types = [],  # noqa: A002, B006 - the parameter's name; FastAPI copies it
    start: Start = None,
    end: End = None,
) -> Response:
    """Read the event log of a job, in order."""
    with database.read() as session:
        rows = events.read(
            session,
            job_id,
            after_seq=after_seq,
            before_seq=before_seq,
            types=type,
            start=start,
            end=end,
            limit=limit + 1,
        )
    listed = rows[:limit] if before_seq is None else rows[-limit:]
    items = [from_row(JobEvent, row) for row in listed]
    last = items[-1].seq if items else after_seq
    page = EventPage(items=items, next=last, more=len(rows) > limit)
    return respond_unless_body_cached(request, ModelResponse(page))

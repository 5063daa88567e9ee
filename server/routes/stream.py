"""Follow everything that is told of a job."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response

from server.deps import DatabaseDep, KeyringDep, StreamsDep, VisibleJobId
from server.openapi import problems
from server.streaming.follow import Feed, Wanted, story_pages
from server.streaming.live import AS_IT_COMES, PATIENCE_S, still_allowed
from server.streaming.shares import owner_of
from server.streaming.streams import LongResponse
from server.telemetry.story import MEDIA_TYPE, as_events, server_sent_events
from store.stories import Kind

router = APIRouter(prefix="/jobs/{job_id}/stream", tags=["stream"])

EVENTS: Final[dict[str, Any]] = {
    MEDIA_TYPE: {
        "schema": {
            "type": "object",
            "description": "Of each event; `data` is JSON.",
            "properties": {
                "event": {"enum": ["steps", "event", "state", "log", "lag", "end"]},
                "data": {"type": "string"},
            },
        }
    }
}
After = Annotated[int, Query(ge=0, le=2**53, description="Only what comes behind this seq.")]
LastEventId = Annotated[
    int | None,
    Header(ge=0, le=2**53, description="As `after`; what a browser sends when it comes again."),
]
Kinds = Annotated[list[Kind], Query(description="Only these; may be repeated.")]
Columns = Annotated[
    str | None,
    Query(
        max_length=4000,
        description="Of steps, names with commas between, "
        "of which those that there are are told; `skipped` comes along.",
    ),
]


@router.get(
    "",
    summary="Follow a job",
    response_class=Response,
    responses={200: {"content": EVENTS}, **problems(404)},
)
async def stream(
    *,
    job_id: VisibleJobId,
    request: Request,
    database: DatabaseDep,
    streams: StreamsDep,
    keyring: KeyringDep,
    after: After = 0,
    last_event_id: LastEventId = None,
    kinds: Kinds = list(Kind),  # noqa: B006 - nobody changes it
    columns: Columns = None,
) -> Response:
    """Everything that was and will be told of a job, in order, as Server-Sent Events.

    `steps` (columns of consecutive steps of one attempt), `event`, `state` and `log` carry their
    seq as id: who comes again with the last one goes on behind it, without a gap or a repeat.
    `end` is the last: the job has ended, and all is told.
    """
    owner = owner_of(request)
    streams.followers.check(owner)
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    wanted = Wanted(job_id, after if last_event_id is None else last_event_id, follow=True)
    feed = Feed(database, streams, wanted, as_events(story_pages(job_id, kinds, names)))
    return LongResponse(
        streams,
        server_sent_events(feed),
        media_type=MEDIA_TYPE,
        headers=AS_IT_COMES,
        among=streams.followers,
        owner=owner,
        allowed=still_allowed(request, keyring),
        stop=feed.stop,
        patience_s=PATIENCE_S,
    )

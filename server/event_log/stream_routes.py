"""Stream the steps, events and log lines of a job."""

from typing import Annotated, Any, Final

from fastapi import Header, Query, Request, Response

from server.deps import AuthenticatorDep, DatabaseDep, StreamsDep, VisibleJobId
from server.documentation.openapi import problems
from server.http.router import api_router
from server.http.streaming.follow import Feed, FollowQuery, stream_pages
from server.http.streaming.stream_limits import owner_of
from server.http.streaming.streams import (
    SEND_TIMEOUT_S,
    STREAMING_HEADERS,
    LongResponse,
    authorization_check,
)
from server.telemetry.server_sent_events import MEDIA_TYPE, encode_as_events, server_sent_events
from store.telemetry.event_stream import StreamKind

router = api_router("/jobs/{job_id}/stream", tags=["stream"])

EVENTS: Final[dict[str, Any]] = {
    MEDIA_TYPE: {
        "schema": {
            "type": "object",
            "description": "One Server-Sent Event; `data` is JSON.",
            "properties": {
                "event": {"enum": ["steps", "event", "state", "log", "lag", "end"]},
                "data": {"type": "string"},
            },
        }
    }
}
After = Annotated[
    int, Query(alias="after", ge=0, le=2**53, description="Only entries after this seq.")
]
LastEventId = Annotated[
    int | None,
    Header(ge=0, le=2**53, description="As `after`; a browser sends it when it reconnects."),
]
Kinds = Annotated[list[StreamKind], Query(description="Only these kinds; repeatable.")]
Columns = Annotated[
    str | None,
    Query(
        max_length=4000,
        description="Comma-separated columns of the steps; unknown names are ignored and "
        "`skipped` is always included.",
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
    authenticator: AuthenticatorDep,
    after_seq: After = 0,
    last_event_id: LastEventId = None,
    kinds: Kinds = list(StreamKind),  # noqa: B006 - never changed
    columns: Columns = None,
) -> Response:
    """Stream all steps, events and log lines of a job, in order, as Server-Sent Events.

    `steps` (columns of consecutive steps of one attempt), `event`, `state` and `log` have their
    seq as id: a client that reconnects with the last id continues after it, without gaps or
    repeats. `end` is the last event: the job has ended, and all entries are sent.
    """
    owner = owner_of(request)
    streams.followers.check(owner)
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    first = after_seq if last_event_id is None else last_event_id
    query = FollowQuery(job_id, first, follow=True, owner=owner.token_id)
    feed = Feed(database, streams, query, encode_as_events(stream_pages(job_id, kinds, names)))
    return LongResponse(
        streams,
        server_sent_events(feed),
        media_type=MEDIA_TYPE,
        headers=STREAMING_HEADERS,
        open_streams=streams.followers,
        owner=owner,
        allowed=authorization_check(request, authenticator),
        stop=feed.stop,
        send_timeout_s=SEND_TIMEOUT_S,
    )

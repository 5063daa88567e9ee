"""Read or follow the log of a job."""

from collections.abc import AsyncGenerator
from typing import Annotated, Any, Final

from anyio.to_thread import run_sync
from fastapi import Query, Request, Response

from ampspec.api.job.logs import LogEntry, LogPage
from server.deps import AuthenticatorDep, DatabaseDep, StreamsDep, VisibleJobId
from server.documentation.openapi import ETAG_RESPONSES, problems
from server.http import accept
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse
from server.http.router import api_router
from server.http.streaming.follow import Feed, FollowQuery, log_pages
from server.http.streaming.stream_limits import owner_of
from server.http.streaming.streams import (
    SEND_TIMEOUT_S,
    STREAMING_HEADERS,
    LongResponse,
    authorization_check,
)
from server.row_models import from_row
from store.database import Database
from store.tables import LogRow
from store.telemetry import logs

router = api_router("/jobs/{job_id}/logs", tags=["logs"])

JSON: Final = "application/json"
TEXT: Final = "text/plain"
NDJSON: Final = "application/x-ndjson"
FORMS: Final[dict[str, Any]] = {
    TEXT: {"schema": {"type": "string"}},
    NDJSON: {
        "schema": {
            "type": "string",
            "description": "One entry per line; empty lines are keep-alives.",
        }
    },
}

After = Annotated[
    int,
    Query(
        alias="after",
        ge=0,
        le=2**53,
        description="Only entries after this seq; to poll, pass `next`.",
    ),
]
Before = Annotated[
    int | None,
    Query(
        alias="before",
        ge=0,
        le=2**53,
        description="Only the last entries before this seq, in a page of JSON.",
    ),
]
Limit = Annotated[int, Query(ge=1, le=1000, description="Entries in a page of JSON.")]
Attempt = Annotated[
    int | None, Query(ge=1, le=2**31 - 1, description="Only entries of this attempt.")
]
Follow = Annotated[
    bool, Query(description="Keep the response open and send new text until the job has ended.")
]


@router.get(
    "",
    summary="Read the log of a job",
    response_model=LogPage,
    responses={**ETAG_RESPONSES, 200: {**ETAG_RESPONSES[200], "content": FORMS}, **problems(404)},
)
async def read(
    *,
    job_id: VisibleJobId,
    request: Request,
    database: DatabaseDep,
    streams: StreamsDep,
    authenticator: AuthenticatorDep,
    after_seq: After = 0,
    before_seq: Before = None,
    limit: Limit = 1000,
    attempt: Attempt = None,
    follow: Follow = False,
) -> Response:
    """Read the log of a job: a page of JSON, or the text itself, as `Accept` requests.

    With `follow` the response is text or NDJSON, and continues until the job has ended.
    """
    forms = (TEXT, NDJSON) if follow else (JSON, TEXT, NDJSON)
    form = accept.preferred_media_type(request.headers.get("accept", ""), forms)
    if form == JSON:
        seq_limits = (after_seq, before_seq)
        page = await run_sync(_page, database, job_id, seq_limits, limit, attempt)
        return respond_unless_body_cached(request, ModelResponse(page))
    owner = owner_of(request)
    streams.followers.check(owner)
    query = FollowQuery(job_id, after_seq, follow, owner.token_id)
    feed = Feed(database, streams, query, log_pages(job_id, attempt))
    return LongResponse(
        streams,
        _encoded(feed, form),
        media_type=form,
        headers=STREAMING_HEADERS,
        open_streams=streams.followers,
        owner=owner,
        allowed=authorization_check(request, authenticator),
        stop=feed.stop,
        send_timeout_s=SEND_TIMEOUT_S,
    )


def _page(
    database: Database,
    job_id: str,
    seq_limits: tuple[int, int | None],
    limit: int,
    attempt: int | None,
) -> LogPage:
    after_seq, before_seq = seq_limits
    with database.read() as session:
        rows = logs.read(
            session,
            job_id,
            after_seq=after_seq,
            before_seq=before_seq,
            limit=limit + 1,
            attempt=attempt,
        )
        page = rows[:limit] if before_seq is None else rows[-limit:]
        items = [from_row(LogEntry, row) for row in page]
    last = items[-1].seq if items else after_seq
    return LogPage(items=items, next=last, more=len(rows) > limit)


async def _encoded(feed: Feed[LogRow], form: str) -> AsyncGenerator[bytes, None]:
    async for page in feed.pages():
        if form == TEXT:
            yield "".join(row.text for row in page.items).encode()
        else:
            lines = [from_row(LogEntry, row).model_dump_json() for row in page.items] or [""]
            yield ("\n".join(lines) + "\n").encode()

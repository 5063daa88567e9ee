"""The response to GET /jobs/{job_id}/steps, in the requested format, with an ETag."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, TypeVar

from anyio.to_thread import run_sync
from fastapi import Request, Response

from server.deps import check_visible, job_not_found, principal_of, services_of
from server.http.access.principal import Principal
from server.http.etag import CACHE_HEADERS, etag_of, matches_if_none_match
from server.http.responses import content_disposition
from server.http.streaming.stream_limits import owner_of
from server.http.streaming.streams import (
    SEND_TIMEOUT_S,
    LongResponse,
    authorization_check,
    iterate_in_threads,
)
from server.telemetry.formats import FORMATS, JSON, writer
from server.telemetry.steps_query import StepsQuery
from server.telemetry.steps_reader import all_tables, read_steps
from server.telemetry.text_formats import json_document
from store.cancellation import checked
from store.database import Database
from store.jobs import jobs
from store.telemetry import evaluations
from store.telemetry.evaluations import EvaluationsIn, StoredEvaluation, no_evaluations

T = TypeVar("T")
VARY: Final = f"{CACHE_HEADERS['Vary']}, Accept"


@dataclass(frozen=True)
class TaggedBody:
    """The ETag of a response, and its body; None if the client has it already."""

    etag: str
    body: bytes | None


async def steps_response(request: Request, job_id: str, query: StepsQuery) -> Response:
    """The response with the requested steps.

    Raises NotFound for a job that the principal may not see, RequestInvalid for an unknown column.
    """
    services, principal = services_of(request), principal_of(request)
    database, streams = services.database, services.streams
    media_type = FORMATS[query.form].media_type
    if query.form == JSON:
        if_none_match = request.headers.getlist("if-none-match")
        # One switch to a thread: each takes as long as a small read.
        tagged = await run_sync(_document, database, job_id, query, principal, if_none_match)
        headers = {**CACHE_HEADERS, "ETag": tagged.etag, "Vary": VARY}
        if tagged.body is None:
            return Response(status_code=304, headers=headers)
        return Response(tagged.body, media_type=media_type, headers=headers)
    owner = owner_of(request)
    streams.files.check(owner)
    name, pieces = await streams.loaders.run(
        owner.token_id, _file, database, job_id, query, principal.visible_project
    )
    headers = {**CACHE_HEADERS, "Content-Disposition": content_disposition(name), "Vary": VARY}
    return LongResponse(
        streams,
        iterate_in_threads(streams, owner, pieces),
        headers=headers,
        media_type=media_type,
        open_streams=streams.files,
        owner=owner,
        allowed=authorization_check(request, services.authenticator),
        send_timeout_s=SEND_TIMEOUT_S,
    )


def _document(
    database: Database,
    job_id: str,
    query: StepsQuery,
    principal: Principal,
    if_none_match: list[str],
) -> TaggedBody:
    with database.read() as session:
        project, seq = jobs.project_and_seq(session, job_id)
        check_visible(principal, job_id, project)
        etag = etag_of(job_id, seq, query)
        if matches_if_none_match(if_none_match, etag):
            return TaggedBody(etag, None)
        reading = read_steps(session, job_id, query)
    return TaggedBody(etag, b"".join(checked(json_document(reading))))


def _file(
    database: Database, job_id: str, query: StepsQuery, visible_project: str | None
) -> tuple[str, Iterator[bytes]]:
    """A file's name and bytes.

    The first table is read and the first piece is encoded before the status is sent.
    """
    with database.read() as session:
        job = jobs.get(session, job_id, project=visible_project)
    if job is None:
        raise job_not_found(job_id)
    began_at = (job.started_at or job.created_at).timestamp()
    form = FORMATS[query.form]
    name = form.name.format(name=job.name, id=job_id, time=int(began_at))
    encode = writer(
        query.form,
        began_at=began_at,
        evaluations_in=_evaluations_of(database, job_id, query)
        if query.columns is None
        else no_evaluations,
    )
    # An encoder may write its first piece before it asks for a table.
    tables = _with_first_made(all_tables(database, job_id, query))
    return name, _with_first_made(encode(tables))


def _evaluations_of(database: Database, job_id: str, query: StepsQuery) -> EvaluationsIn:
    """Reads the evaluations among a table of steps; of downsampled ones as many as points."""

    def evaluations_in(start: int, end: int) -> Sequence[StoredEvaluation]:
        max_points = query.max_points or end - start
        with database.read() as session:
            return evaluations.sample(
                session, job_id, max_points, after_step=start - 1, end=end, attempt=query.attempt
            )

    return evaluations_in


def _with_first_made(items: Iterator[T]) -> Iterator[T]:
    """The same iterator, with its first item already computed."""
    first = list(islice(items, 1))
    return chain(first, items)

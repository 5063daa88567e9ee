"""Answer a read of steps in the form that it asks for; what is known already is not read again."""

from collections.abc import Iterator
from itertools import chain

from anyio.to_thread import run_sync
from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from server.deps import services_of
from server.http.etag import HEADERS, etag_of, is_known
from server.http.responses import attachment
from server.streaming.streams import LongResponse, loaded
from server.telemetry.documents import json_document
from server.telemetry.forms import FORMS, JSON, writer
from server.telemetry.reading import every_table, read
from server.telemetry.wanted import Wanted
from store import jobs
from store.database import Database


async def answer(request: Request, job_id: str, wanted: Wanted) -> Response:
    """The steps that are wanted. Raises RequestInvalid for a column that there is not."""
    services = services_of(request)
    database, streams = services.database, services.streams
    etag = await run_sync(_etag, database, job_id, wanted)
    headers = {**HEADERS, "ETag": etag, "Vary": f"{HEADERS['Vary']}, Accept"}
    if is_known(request.headers.getlist("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    media_type = FORMS[wanted.form].media_type
    if wanted.form == JSON:
        pieces = await run_sync(_document, database, job_id, wanted, limiter=services.step_readers)
        return StreamingResponse(pieces, media_type=media_type, headers=headers)
    streams.refuse_if_full()
    name, pieces = await run_sync(_file, database, job_id, wanted, limiter=streams.loaders)
    headers["Content-Disposition"] = attachment(name)
    return LongResponse(streams, loaded(streams, pieces), headers=headers, media_type=media_type)


def _etag(database: Database, job_id: str, wanted: Wanted) -> str:
    """Whatever changes what is told of a job raises its seq."""
    with database.look() as connection:
        return etag_of(job_id, jobs.seq_of(connection, job_id), wanted)


def _document(database: Database, job_id: str, wanted: Wanted) -> Iterator[bytes]:
    with database.read() as session:
        return json_document(read(session, job_id, wanted))


def _file(database: Database, job_id: str, wanted: Wanted) -> tuple[str, Iterator[bytes]]:
    """A file's name, and its bytes; the first of them are made, so that nothing is promised."""
    with database.read() as session:
        job = jobs.get(session, job_id)
    began_at = (job.started_at or job.created_at).timestamp() if job else 0.0
    form = FORMS[wanted.form]
    name = form.name.format(name=job.name if job else "steps", id=job_id, time=int(began_at))
    pieces = writer(wanted.form, began_at=began_at)(every_table(database, job_id, wanted))
    return name, chain([next(pieces, b"")], pieces)

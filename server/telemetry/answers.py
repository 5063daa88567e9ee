"""Answer a read of steps in the form that it asks for; what is known already is not read again."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from anyio.to_thread import run_sync
from fastapi import Request, Response

from server.deps import no_job, principal_of, services_of
from server.http.etag import HEADERS, etag_of, is_known
from server.http.responses import attachment
from server.streaming.live import PATIENCE_S, still_allowed
from server.streaming.shares import owner_of
from server.streaming.streams import LongResponse, loaded
from server.telemetry.documents import json_document
from server.telemetry.forms import FORMS, JSON, writer
from server.telemetry.reading import every_table, read
from server.telemetry.wanted import Wanted
from store import jobs
from store.database import Database

VARY: Final = f"{HEADERS['Vary']}, Accept"


@dataclass(frozen=True)
class Told:
    """The tag of an answer, and its body; None: who asks has it already."""

    etag: str
    body: bytes | None


async def answer(request: Request, job_id: str, wanted: Wanted) -> Response:
    """The steps that are wanted.

    Raises NotFound for a job that the principal does not see, RequestInvalid for a column that
    there is not.
    """
    services, sees = services_of(request), principal_of(request).sees
    database, streams = services.database, services.streams
    media_type = FORMS[wanted.form].media_type
    if wanted.form == JSON:
        known = request.headers.getlist("if-none-match")
        # One way into a thread and back: each takes as long as a small read.
        told = await run_sync(
            _document, database, job_id, wanted, sees, known, limiter=services.step_readers
        )
        headers = {**HEADERS, "ETag": told.etag, "Vary": VARY}
        if told.body is None:
            return Response(status_code=304, headers=headers)
        return Response(told.body, media_type=media_type, headers=headers)
    owner = owner_of(request)
    streams.files.check(owner)
    name, pieces = await run_sync(_file, database, job_id, wanted, sees, limiter=streams.loaders)
    headers = {**HEADERS, "Content-Disposition": attachment(name), "Vary": VARY}
    return LongResponse(
        streams,
        loaded(streams, pieces),
        headers=headers,
        media_type=media_type,
        among=streams.files,
        owner=owner,
        allowed=still_allowed(request, services.keyring),
        patience_s=PATIENCE_S,
    )


def _document(
    database: Database, job_id: str, wanted: Wanted, sees: str | None, known: list[str]
) -> Told:
    with database.read() as session:
        project, seq = jobs.project_and_seq(session, job_id)
        if project is None or sees not in (None, project):
            raise no_job(job_id)
        etag = etag_of(job_id, seq, wanted)
        if is_known(known, etag):
            return Told(etag, None)
        reading = read(session, job_id, wanted)
    return Told(etag, b"".join(json_document(reading)))


def _file(
    database: Database, job_id: str, wanted: Wanted, sees: str | None
) -> tuple[str, Iterator[bytes]]:
    """A file's name, and its bytes; the first of them are made, so that nothing is promised."""
    with database.read() as session:
        job = jobs.get(session, job_id, project=sees)
    if job is None:
        raise no_job(job_id)
    began_at = (job.started_at or job.created_at).timestamp()
    form = FORMS[wanted.form]
    name = form.name.format(name=job.name, id=job_id, time=int(began_at))
    pieces = writer(wanted.form, began_at=began_at)(every_table(database, job_id, wanted))
    return name, _begun(pieces)


def _begun(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same, of which the first one is made already."""
    first = next(pieces, b"")

    def rest() -> Iterator[bytes]:
        yield first
        yield from pieces

    return rest()

"""List, upload, look up, download and delete files that jobs name by their SHA-256."""

from typing import Annotated, Final

from anyio.to_thread import run_sync
from fastapi import Depends, Path, Query, Request, Response
from sqlalchemy.orm import Session

from ampspec.api.files import FilePage, Sha256, StoredFile
from ampspec.api.roles import Scope
from ampspec.references.stored_files import FileKind
from server.datasets.routes import Limit
from server.deps import (
    ActorDep,
    AuthenticatorDep,
    BodyReceiverDep,
    DatabaseDep,
    FileStoreDep,
    MemberDep,
    ProjectDep,
    StorageDep,
    StreamsDep,
    check_scope,
)
from server.documentation.openapi import BYTES_BODY, ETAG_RESPONSES, FILE_RESPONSES, problems
from server.files.deletion import delete_file
from server.files.file_store import MAX_BYTES
from server.files.listing import file_page
from server.http.etag import respond_unless_body_cached
from server.http.receive_body import required_length
from server.http.responses import ModelResponse, to_response
from server.http.router import api_router
from server.http.streaming import downloads
from server.http.streaming.streams import authorization_check
from server.idempotency import IdempotentRequestDep, respond_once
from server.row_models import from_row
from store.access.idempotency import StoredResponse
from store.files.project_files import STORAGE_FOLDER, FileKey

router = api_router("/files", tags=["files"])
FILE: Final = "/{kind}/{sha256}"

ENDINGS: Final = {FileKind.BUNDLE: "zip", FileKind.WEIGHTS: "safetensors"}
NAME_DIGITS: Final = 12
"""Of the SHA-256 in the name of a downloaded file."""


def _key(
    kind: Annotated[FileKind, Path(description="What the file is for.")],
    sha256: Annotated[Sha256, Path(description="The file's SHA-256.")],
    project: ProjectDep,
) -> FileKey:
    return FileKey(project, kind, sha256)


KeyDep = Annotated[FileKey, Depends(_key)]


@router.get(
    "",
    summary="List files",
    response_model=FilePage,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def listing(
    *,
    project: ProjectDep,
    database: DatabaseDep,
    request: Request,
    kind: Annotated[FileKind | None, Query(description="Only files of this kind.")] = None,
    cursor: Annotated[str | None, Query(description="From the page before.")] = None,
    limit: Limit = 100,
) -> Response:
    """List the files of the token's project, the newest first, with the jobs that name them."""
    with database.read() as session:
        page = file_page(session, project, kind, cursor, limit)
    return respond_unless_body_cached(request, ModelResponse(page))


@router.get(
    FILE,
    summary="Look up a file",
    response_model=StoredFile,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def read(key: KeyDep, files: FileStoreDep, request: Request) -> Response:
    """Say whether the project has a file, which then is kept for at least another day."""
    return respond_unless_body_cached(request, ModelResponse(from_row(StoredFile, files.get(key))))


@router.get(
    f"{FILE}/content",
    summary="Download a file",
    response_class=Response,
    responses={**FILE_RESPONSES, **problems(404, 416, 502)},
)
async def download(
    *,
    key: KeyDep,
    request: Request,
    files: FileStoreDep,
    storage: StorageDep,
    streams: StreamsDep,
    authenticator: AuthenticatorDep,
) -> Response:
    """Download a file, or a part of it with `Range`."""
    row = await run_sync(files.get, key)
    name = f"{row.sha256[:NAME_DIGITS]}.{ENDINGS[key.kind]}"
    file = downloads.StoredContent(STORAGE_FOLDER, row.path, name, row.size_bytes, row.sha256)
    return await downloads.file_response(request, file, storage, streams, authenticator)


@router.put(
    FILE,
    summary="Upload a file",
    status_code=201,
    response_model=StoredFile,
    responses={
        200: {"model": StoredFile, "description": "The project has the file already."},
        **problems(403, 404, 411, 413),
    },
    openapi_extra=BYTES_BODY,
)
async def put(
    *,
    key: KeyDep,
    member: MemberDep,
    actor: ActorDep,
    request: Request,
    files: FileStoreDep,
    receiver: BodyReceiverDep,
    streams: StreamsDep,
    authenticator: AuthenticatorDep,
) -> Response:
    """Store the body under its SHA-256. A file that no job names is deleted after a day."""
    if key.kind is FileKind.BUNDLE:
        check_scope(member, Scope.RUN_CODE, "Uploading a bundle")
    length = required_length(request, MAX_BYTES[key.kind])
    if (stored_file := await run_sync(files.find, key, limiter=receiver.threads)) is not None:
        return ModelResponse(from_row(StoredFile, stored_file), status_code=200)
    await run_sync(files.check_size, key, length, limiter=receiver.threads)
    body = await receiver.receive(
        request,
        length,
        allowed=authorization_check(request, authenticator),
        is_stopping=streams.shutting_down.is_set,
    )
    body.require_whole()
    stored = await run_sync(files.store, key, body, actor, limiter=receiver.completions)
    return ModelResponse(
        from_row(StoredFile, stored.file), status_code=201 if stored.is_new else 200
    )


@router.delete(
    FILE,
    summary="Delete a file",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409),
)
def delete(
    *,
    key: KeyDep,
    _member: MemberDep,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Delete a file; 409 while a job names it, also one that has ended."""

    def make(session: Session) -> StoredResponse:
        delete_file(session, key, actor)
        return StoredResponse(204, {}, "")

    return to_response(respond_once(database, idempotent_request, make))

"""Upload files of datasets: resumable in several requests, or in one."""

from typing import Annotated, Any, Final

from anyio import CancelScope
from anyio.to_thread import run_sync
from fastapi import Header, Path, Query, Request, Response
from sqlalchemy.orm import Session

from ampspec.api.datasets import DatasetVersion, FileName, Sha256, Upload, UploadRequest
from server.datasets.routes import Name
from server.datasets.uploads import Completed, UploadKey, Uploads, check_digest
from server.deps import (
    ActorDep,
    AuthenticatorDep,
    BodyReceiverDep,
    DatabaseDep,
    MemberDep,
    ProjectDep,
    StreamsDep,
    UploadsDep,
)
from server.documentation.openapi import BYTES_BODY, problems
from server.http.json_body import JsonRoute
from server.http.receive_body import ReceivedBody, required_length
from server.http.responses import ModelResponse, to_response
from server.http.router import api_router
from server.http.streaming.streams import authorization_check
from server.idempotency import IdempotentRequestDep, respond_once
from server.row_models import dataset_version_from_row, upload_from_row
from store import tables
from store.access.idempotency import StoredResponse
from store.files.dataset_uploads import NewUpload

router = api_router("/datasets/{name}", tags=["datasets"], route_class=JsonRoute)

OFFSET: Final = "Upload-Offset"
UploadId = Annotated[str, Path(description="The upload's id.", pattern="^[0-9a-f]{12}$")]
OFFSET_HEADER: Final[dict[str, Any]] = {
    OFFSET: {
        "description": "The number of stored bytes; the next PATCH starts here.",
        "schema": {"type": "integer"},
    }
}


@router.post(
    "/uploads",
    summary="Start an upload",
    status_code=201,
    response_model=Upload,
    responses={201: {"headers": OFFSET_HEADER}, **problems(403, 404, 413, 429)},
)
def start(
    *,
    name: Name,
    project: ProjectDep,
    upload_request: UploadRequest,
    member: MemberDep,
    database: DatabaseDep,
    uploads: UploadsDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Start an upload, and reserve its size in the project's quota.

    If the newest version has the same SHA-256, the upload is complete at once: see `version`.
    """
    new = NewUpload(name, upload_request.file, upload_request.size_bytes, upload_request.sha256)

    def make(session: Session) -> StoredResponse:
        row = uploads.start(session, project, new, member.token_name)
        location = f"/api/v1/datasets/{name}/uploads/{row.id}"
        headers = {"Location": location, OFFSET: str(row.offset_bytes)}
        return StoredResponse(201, headers, upload_from_row(row).model_dump_json())

    return to_response(respond_once(database, idempotent_request, make))


@router.get(
    "/uploads/{upload_id}",
    summary="Read an upload",
    response_model=Upload,
    responses={200: {"headers": OFFSET_HEADER}, **problems(404)},
)
def read(*, name: Name, upload_id: UploadId, project: ProjectDep, uploads: UploadsDep) -> Response:
    """Read how many bytes of an upload are stored, and which version it has become."""
    return _upload_response(uploads.get(UploadKey(project, name, upload_id)))


@router.patch(
    "/uploads/{upload_id}",
    summary="Append to an upload",
    response_model=Upload,
    responses={200: {"headers": OFFSET_HEADER}, **problems(403, 404, 409, 413)},
    openapi_extra=BYTES_BODY,
)
async def append(
    *,
    name: Name,
    upload_id: UploadId,
    project: ProjectDep,
    offset: Annotated[
        int, Header(alias=OFFSET, ge=0, le=2**53, description="Where the bytes of the body belong.")
    ],
    _member: MemberDep,
    request: Request,
    uploads: UploadsDep,
    receiver: BodyReceiverDep,
    streams: StreamsDep,
    authenticator: AuthenticatorDep,
) -> Response:
    """Append the body, of any length, to an upload.

    If the connection breaks, the bytes that have arrived are kept: read the offset, and send the
    rest.
    """
    key = UploadKey(project, name, upload_id)
    upload = await run_sync(uploads.check_offset, key, offset, limiter=receiver.threads)
    body = await receiver.receive(
        request,
        upload.size_bytes - offset,
        allowed=authorization_check(request, authenticator),
        is_stopping=streams.shutting_down.is_set,
    )
    appended = await run_sync(uploads.append, key, offset, body, limiter=receiver.threads)
    return _upload_response(appended)


@router.post(
    "/uploads/{upload_id}/complete",
    summary="Complete an upload",
    response_model=DatasetVersion,
    status_code=201,
    responses={
        200: {
            "model": DatasetVersion,
            "description": "The version existed already: the upload was completed before, or the "
            "newest version has the same content.",
        },
        **problems(403, 404, 409),
    },
)
async def complete(
    *,
    name: Name,
    upload_id: UploadId,
    project: ProjectDep,
    _member: MemberDep,
    actor: ActorDep,
    uploads: UploadsDep,
    receiver: BodyReceiverDep,
) -> Response:
    """Create the next version from an upload whose bytes are all stored; idempotent."""
    key = UploadKey(project, name, upload_id)
    completed = await run_sync(uploads.complete, key, actor, limiter=receiver.completions)
    return _version_response(completed, name)


@router.delete(
    "/uploads/{upload_id}",
    summary="Delete an upload",
    status_code=204,
    response_class=Response,
    responses=problems(403, 404),
)
def delete(
    *,
    name: Name,
    upload_id: UploadId,
    project: ProjectDep,
    _member: MemberDep,
    uploads: UploadsDep,
) -> Response:
    """Delete an upload and its bytes; a version that it has become stays."""
    uploads.delete(UploadKey(project, name, upload_id))
    return Response(status_code=204)


@router.put(
    "",
    summary="Upload a file in one request",
    status_code=201,
    response_model=DatasetVersion,
    responses={
        200: {"model": DatasetVersion, "description": "The newest version has the same content."},
        **problems(403, 404, 411, 413, 429),
    },
    openapi_extra=BYTES_BODY,
)
async def put(
    *,
    name: Name,
    project: ProjectDep,
    file: Annotated[
        FileName | None, Query(description="The name of the file; its suffix tells the format.")
    ] = None,
    sha256: Annotated[Sha256 | None, Query(description="The SHA-256 of the file.")] = None,
    member: MemberDep,
    actor: ActorDep,
    request: Request,
    database: DatabaseDep,
    uploads: UploadsDep,
    receiver: BodyReceiverDep,
    streams: StreamsDep,
    authenticator: AuthenticatorDep,
) -> Response:
    """Create the next version from the body, as in `curl -T birds.npz …/datasets/birds`."""
    new = NewUpload(name, file or name, required_length(request, uploads.max_bytes), sha256)

    def start_upload() -> UploadKey:
        with database.write() as session:
            row = uploads.start(session, project, new, member.token_name, is_shared=False)
        return UploadKey(project, name, row.id)

    key = await run_sync(start_upload, limiter=receiver.threads)
    try:
        if (await run_sync(uploads.get, key, limiter=receiver.threads)).number is None:
            body = await receiver.receive(
                request,
                new.size_bytes,
                allowed=authorization_check(request, authenticator),
                is_stopping=streams.shutting_down.is_set,
            )
            await run_sync(_append_whole, uploads, key, body, sha256, limiter=receiver.threads)
        completed = await run_sync(uploads.complete, key, actor, limiter=receiver.completions)
    except BaseException:
        with CancelScope(shield=True):  # also when the server stops
            await run_sync(uploads.discard, key, limiter=receiver.threads)
        raise
    return _version_response(completed, name)


def _append_whole(uploads: Uploads, key: UploadKey, body: ReceivedBody, sha256: str | None) -> None:
    """Append the body of a request that sends all bytes. Raises Unavailable and RequestInvalid."""
    try:
        body.require_whole()
        check_digest(sha256, body.sha256)
        uploads.append(key, 0, body)
    finally:
        body.file.unlink(missing_ok=True)


def _upload_response(row: tables.DatasetUpload) -> Response:
    response = ModelResponse(upload_from_row(row))
    response.headers[OFFSET] = str(row.offset_bytes)
    response.headers["Cache-Control"] = "no-store"
    return response


def _version_response(completed: Completed, name: str) -> Response:
    version = dataset_version_from_row(DatasetVersion, completed.version, name)
    return ModelResponse(version, status_code=201 if completed.is_new else 200)

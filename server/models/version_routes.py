"""Register, read, download, change, delete and restore versions of models."""

from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import Depends, Path, Query, Request, Response
from sqlalchemy.orm import Session

from ampspec.api.models import (
    ModelFile,
    ModelFormat,
    ModelVersion,
    ModelVersionPage,
    NotesRequest,
    RegisterRequest,
)
from ampspec.references.model_reference import ALIAS, VERSION_NUMBER, ModelReference
from server.deps import (
    ActorDep,
    AuthenticatorDep,
    DatabaseDep,
    MemberDep,
    ProjectDep,
    StorageDep,
    StreamsDep,
)
from server.documentation.openapi import (
    CREATED_RESPONSES,
    ETAG_RESPONSES,
    FILE_RESPONSES,
    problems,
)
from server.errors import NotFound
from server.http.etag import respond_unless_body_cached
from server.http.json_body import JsonRoute
from server.http.responses import ModelResponse, content_disposition, to_response
from server.http.router import api_router
from server.http.streaming import downloads
from server.idempotency import IdempotentRequestDep, replay, respond_once
from server.models.card import model_card
from server.models.card_facts import training_facts
from server.models.changes import change_version
from server.models.deletion import delete_versions, restore_version
from server.models.registration import add_version, read_job
from server.models.routes import Limit, Name
from server.models.views import model_not_found, models_from_rows, versions_from_rows
from store import tables
from store.access.idempotency import StoredResponse
from store.database import Database
from store.files import artifacts
from store.models import registered_models

router = api_router("/registered-models/{name}/versions", tags=["models"], route_class=JsonRoute)

MARKDOWN = "text/markdown; charset=utf-8"
VersionInPath = Annotated[
    str,
    Path(
        pattern=f"^({VERSION_NUMBER}|{ALIAS})$",
        description="The version's number, an alias such as `champion`, or `latest`.",
    ),
]
Number = Annotated[int, Path(description="The version's number.", ge=1, le=2**31 - 1)]
DeletedQuery = Annotated[bool, Query(description="List the deleted versions instead.")]


def _reference(name: Name, version: VersionInPath) -> ModelReference:
    separator = ":" if version.isdecimal() else "@"
    return ModelReference.parse(f"{name}{separator}{version}")


ReferenceDep = Annotated[ModelReference, Depends(_reference)]
"""The version in the path, by its number or an alias."""


@router.post(
    "",
    summary="Register the model of a job",
    status_code=201,
    response_model=ModelVersion,
    responses={**CREATED_RESPONSES, **problems(404, 409)},
)
def register(
    *,
    name: Name,
    register_request: RegisterRequest,
    project: ProjectDep,
    database: DatabaseDep,
    storage: StorageDep,
    _member: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Register the model of a job that has succeeded as the next version; creates the model."""
    if (stored := replay(database, idempotent_request)) is not None:
        return to_response(stored)
    version = read_job(database, storage, project, register_request)

    def make(session: Session) -> StoredResponse:
        row = add_version(session, project, name, version, actor)
        return _stored(session, name, row, status=201)

    return to_response(respond_once(database, idempotent_request, make))


@router.get(
    "",
    summary="List the versions of a model",
    response_model=ModelVersionPage,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def listing(
    *,
    name: Name,
    project: ProjectDep,
    database: DatabaseDep,
    request: Request,
    deleted: DeletedQuery = False,
    cursor: Annotated[int | None, Query(ge=1, description="From the page before.")] = None,
    limit: Limit = 100,
) -> Response:
    """List the versions of a model, the newest first."""
    with database.read() as session:
        rows = registered_models.versions(
            session, project, name, deleted=deleted, before_number=cursor, limit=limit + 1
        )
        if not rows and cursor is None and not deleted:
            raise model_not_found(ModelReference(name))
        items = versions_from_rows(session, name, rows[:limit])
    following = str(items[-1].number) if len(rows) > limit else None
    page = ModelVersionPage(items=items, next_cursor=following)
    return respond_unless_body_cached(request, ModelResponse(page))


@router.get(
    "/{version}",
    summary="Read a version of a model",
    response_model=ModelVersion,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def read(
    reference: ReferenceDep, project: ProjectDep, database: DatabaseDep, request: Request
) -> Response:
    """Read a version, also a deleted one by its number."""
    with database.read() as session:
        row = _find(session, project, reference)
        [version] = versions_from_rows(session, reference.name, [row])
    return respond_unless_body_cached(request, ModelResponse(version))


@router.get(
    "/{version}/card",
    summary="Read the model card of a version",
    response_class=Response,
    responses={
        200: {"content": {"text/markdown": {"schema": {"type": "string"}}}},
        **problems(404),
    },
)
def card(
    reference: ReferenceDep, project: ProjectDep, database: DatabaseDep, request: Request
) -> Response:
    """Read the model card: data, metrics, precision, ranges, environment, and what is unknown."""
    with database.read() as session:
        row = _find(session, project, reference)
        pages = registered_models.page(session, project, name=reference.name, limit=1)
        if not pages:
            raise model_not_found(reference)
        [model] = models_from_rows(session, pages)
        [version] = versions_from_rows(session, reference.name, [row])
        text = model_card(model, version, training_facts(session, row))
    headers = {
        "Content-Disposition": content_disposition(f"{version.model}-{version.number}.md"),
        "X-Content-Type-Options": "nosniff",
    }
    return respond_unless_body_cached(request, Response(text, headers=headers, media_type=MARKDOWN))


@router.get(
    "/{version}/files/{file_format}",
    summary="Download a version of a model",
    response_class=Response,
    responses={**FILE_RESPONSES, **problems(404, 416, 502)},
)
async def download(
    *,
    reference: ReferenceDep,
    file_format: Annotated[ModelFormat, Path(description="The format of the file.")],
    project: ProjectDep,
    request: Request,
    database: DatabaseDep,
    storage: StorageDep,
    streams: StreamsDep,
    authenticator: AuthenticatorDep,
) -> Response:
    """Download the file of a format, or a part of it with `Range`."""
    content = await run_sync(_content, database, project, reference, file_format)
    return await downloads.file_response(request, content, storage, streams, authenticator)


@router.patch(
    "/{version}",
    summary="Change the note and tags of a version",
    response_model=ModelVersion,
    responses=problems(404, 409, 422),
)
def change(
    *,
    reference: ReferenceDep,
    changes: NotesRequest,
    project: ProjectDep,
    database: DatabaseDep,
    _member: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Change the note and tags of a version; what is left out stays."""

    def make(session: Session) -> StoredResponse:
        row = change_version(session, project, reference, changes, actor)
        return _stored(session, reference.name, row)

    return to_response(respond_once(database, idempotent_request, make))


@router.delete(
    "/{number}",
    summary="Delete a version of a model",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409),
)
def delete(
    *,
    name: Name,
    number: Number,
    project: ProjectDep,
    database: DatabaseDep,
    _member: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Delete a version; 409 while it has an alias. It can be restored while its job exists."""

    def make(session: Session) -> StoredResponse:
        delete_versions(session, project, ModelReference(name, number), actor)
        return StoredResponse(204, {}, "")

    return to_response(respond_once(database, idempotent_request, make))


@router.post(
    "/{number}/undelete",
    summary="Restore a deleted version of a model",
    response_model=ModelVersion,
    responses=problems(404, 409),
)
def undelete(
    *,
    name: Name,
    number: Number,
    project: ProjectDep,
    database: DatabaseDep,
    _member: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Restore a deleted version; 409 if its job was deleted, with the files."""

    def make(session: Session) -> StoredResponse:
        row = restore_version(session, project, ModelReference(name, number), actor)
        return _stored(session, name, row)

    return to_response(respond_once(database, idempotent_request, make))


def _stored(
    session: Session, name: str, row: tables.ModelVersion, *, status: int = 200
) -> StoredResponse:
    [version] = versions_from_rows(session, name, [row])
    return StoredResponse(status, {}, version.model_dump_json())


def _find(session: Session, project: str, reference: ModelReference) -> tables.ModelVersion:
    row = registered_models.find(session, project, reference)
    if row is None:
        raise model_not_found(reference)
    return row


def _content(
    database: Database, project: str, reference: ModelReference, file_format: str
) -> downloads.StoredContent:
    """The stored file of a version. Raises NotFound with the reason why there is none."""
    with database.read() as session:
        row = _find(session, project, reference)
        entries = [ModelFile.from_json(entry) for entry in row.files]
        entry = next((file for file in entries if file.format == file_format), None)
        if entry is None or entry.sha256 is None or entry.file_name is None:
            reason = (entry.reason if entry is not None else None) or "It was not recorded."
            raise NotFound(f"{reference} has no file in the format {file_format}: {reason}")
        files = artifacts.listing(session, row.job_id) if row.job_id is not None else []
    file = next((file for file in reversed(files) if file.sha256 == entry.sha256), None)
    if file is None:
        raise NotFound(f"{reference} was deleted, and then its job with the files.")
    return downloads.StoredContent(
        file.job_id, file.path, entry.file_name, file.size_bytes, file.sha256
    )

"""List, read, download and delete datasets and their versions."""

from collections.abc import Callable
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import Depends, Path, Query, Request, Response
from sqlalchemy.orm import Session

from ampspec.api.datasets import (
    Dataset,
    DatasetName,
    DatasetPage,
    DatasetVersion,
    DatasetVersionPage,
    ListedDatasetVersion,
)
from ampspec.references.dataset_reference import VersionReference
from server.datasets.deletion import dataset_not_found, delete_versions
from server.deps import (
    ActorDep,
    AuthenticatorDep,
    DatabaseDep,
    MemberDep,
    ProjectDep,
    StorageDep,
    StreamsDep,
)
from server.documentation.openapi import ETAG_RESPONSES, FILE_RESPONSES, problems
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse, to_response
from server.http.router import api_router
from server.http.streaming import downloads
from server.idempotency import IdempotentRequestDep, respond_once
from server.row_models import dataset_from_row, dataset_version_from_row
from store import tables
from store.access.idempotency import StoredResponse
from store.database import Database
from store.files import datasets
from store.files.datasets import STORAGE_FOLDER

router = api_router("/datasets", tags=["datasets"])

Name = Annotated[DatasetName, Path(description="The dataset's name.")]
Number = Annotated[int, Path(description="The version's number.", ge=1, le=2**31 - 1)]
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of items per page.")]


Remove = Callable[[VersionReference], Response]


def _remove(
    *,
    project: ProjectDep,
    database: DatabaseDep,
    _member: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> Remove:
    def remove(reference: VersionReference) -> Response:
        def make(session: Session) -> StoredResponse:
            delete_versions(session, project, reference, actor)
            return StoredResponse(204, {}, "")

        return to_response(respond_once(database, idempotent_request, make))

    return remove


RemoveDep = Annotated[Remove, Depends(_remove)]
"""Deletes a version, or all of them, and then their files."""


@router.get(
    "",
    summary="List datasets",
    response_model=DatasetPage,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def listing(
    *,
    project: ProjectDep,
    database: DatabaseDep,
    request: Request,
    cursor: Annotated[DatasetName | None, Query(description="From the page before.")] = None,
    limit: Limit = 100,
) -> Response:
    """List the datasets of the token's project by name, each with its newest version."""
    with database.read() as session:
        rows = datasets.page(session, project, after_name=cursor, limit=limit + 1)
        items = [dataset_from_row(row) for row in rows[:limit]]
    following = items[-1].name if len(rows) > limit else None
    page = DatasetPage(items=items, next_cursor=following)
    return respond_unless_body_cached(request, ModelResponse(page))


@router.get(
    "/{name}",
    summary="Read a dataset",
    response_model=Dataset,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def read(name: Name, project: ProjectDep, database: DatabaseDep, request: Request) -> Response:
    """Read a dataset with its newest version."""
    with database.read() as session:
        rows = datasets.page(session, project, name=name, limit=1)
    if not rows:
        raise dataset_not_found(VersionReference(name))
    dataset = dataset_from_row(rows[0])
    return respond_unless_body_cached(request, ModelResponse(dataset))


@router.get(
    "/{name}/versions",
    summary="List the versions of a dataset",
    response_model=DatasetVersionPage,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def versions(
    *,
    name: Name,
    project: ProjectDep,
    database: DatabaseDep,
    request: Request,
    cursor: Annotated[int | None, Query(ge=1, description="From the page before.")] = None,
    limit: Limit = 100,
) -> Response:
    """List the versions of a dataset, the newest first, without columns and previews."""
    with database.read() as session:
        rows = datasets.versions(session, project, name, before_number=cursor, limit=limit + 1)
        if not rows and cursor is None:
            raise dataset_not_found(VersionReference(name))
        items = [dataset_version_from_row(ListedDatasetVersion, row, name) for row in rows[:limit]]
    following = str(items[-1].number) if len(rows) > limit else None
    page = DatasetVersionPage(items=items, next_cursor=following)
    return respond_unless_body_cached(request, ModelResponse(page))


@router.get(
    "/{name}/versions/{number}",
    summary="Read a version of a dataset",
    response_model=DatasetVersion,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def read_version(
    *, name: Name, number: Number, project: ProjectDep, database: DatabaseDep, request: Request
) -> Response:
    """Read a version with its columns and a preview of its content."""
    row = _find(database, project, VersionReference(name, number))
    version = dataset_version_from_row(DatasetVersion, row, name)
    return respond_unless_body_cached(request, ModelResponse(version))


@router.get(
    "/{name}/versions/{number}/content",
    summary="Download a version of a dataset",
    response_class=Response,
    responses={**FILE_RESPONSES, **problems(404, 416, 502)},
)
async def download(
    *,
    name: Name,
    number: Number,
    project: ProjectDep,
    request: Request,
    database: DatabaseDep,
    storage: StorageDep,
    streams: StreamsDep,
    authenticator: AuthenticatorDep,
) -> Response:
    """Download the file, or a part of it with `Range`."""
    row = await run_sync(_find, database, project, VersionReference(name, number))
    file = downloads.StoredContent(
        STORAGE_FOLDER, row.path, row.file_name, row.size_bytes, row.sha256
    )
    return await downloads.file_response(request, file, storage, streams, authenticator)


@router.delete(
    "/{name}",
    summary="Delete a dataset",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409),
)
def delete(name: Name, remove: RemoveDep) -> Response:
    """Delete every version of a dataset; 409 while an unfinished job uses one of them."""
    return remove(VersionReference(name))


@router.delete(
    "/{name}/versions/{number}",
    summary="Delete a version of a dataset",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409),
)
def delete_version(name: Name, number: Number, remove: RemoveDep) -> Response:
    """Delete a version and its file; 409 while an unfinished job uses it."""
    return remove(VersionReference(name, number))


def _find(database: Database, project: str, reference: VersionReference) -> tables.DatasetVersion:
    with database.read() as session:
        version = datasets.find(session, project, reference)
    if version is None:
        raise dataset_not_found(reference)
    return version

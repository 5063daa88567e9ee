"""List the files of a job, and download them."""

from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import Path, Request, Response

from ampspec.api.job.artifacts import Artifact, ArtifactList
from infra.storage import check_path
from server.deps import AuthenticatorDep, DatabaseDep, StorageDep, StreamsDep, VisibleJobId
from server.documentation.openapi import ETAG_RESPONSES, FILE_RESPONSES, problems
from server.errors import NotFound
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse
from server.http.router import api_router
from server.http.streaming import downloads
from server.row_models import from_row
from store import tables
from store.database import Database
from store.files import artifacts

router = api_router("/jobs/{job_id}/artifacts", tags=["artifacts"])

FilePath = Annotated[str, Path(description="The `path` of the file, as in the list.")]


@router.get(
    "",
    summary="List the files of a job",
    response_model=ArtifactList,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def listing(job_id: VisibleJobId, database: DatabaseDep, request: Request) -> Response:
    """List checkpoints, the model and reports, with their sizes and SHA-256."""
    with database.read() as session:
        rows = artifacts.listing(session, job_id)
        files = ArtifactList(items=[from_row(Artifact, row) for row in rows])
    return respond_unless_body_cached(request, ModelResponse(files))


@router.get(
    "/{path:path}",
    summary="Download a file of a job",
    response_class=Response,
    responses={**FILE_RESPONSES, **problems(404, 416, 502)},
)
async def download(
    *,
    job_id: VisibleJobId,
    path: FilePath,
    request: Request,
    database: DatabaseDep,
    storage: StorageDep,
    streams: StreamsDep,
    authenticator: AuthenticatorDep,
) -> Response:
    """Download a file, or a part of it with `Range`."""
    file = await run_sync(_find, database, job_id, check_path(path))
    name = file.path.rpartition("/")[2]
    content = downloads.StoredContent(file.job_id, file.path, name, file.size_bytes, file.sha256)
    return await downloads.file_response(request, content, storage, streams, authenticator)


def _find(database: Database, job_id: str, path: str) -> tables.Artifact:
    """The row of a file: the storage is accessed only for files that have one."""
    with database.read() as session:
        file = artifacts.get(session, job_id, path)
    if file is None:
        raise NotFound(f"The job has no file {path[:80]!r}.")
    return file

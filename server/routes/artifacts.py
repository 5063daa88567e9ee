"""List the files of a job, and download them."""

from typing import Annotated, Any, Final

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Request, Response

from ampcore.api.artifacts import Artifact, ArtifactList
from server.deps import AuthenticatorDep, DatabaseDep, StorageDep, StreamsDep, VisibleJobId
from server.errors import NotFound
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse
from server.openapi import ETAG_RESPONSES, problems
from server.row_models import from_row
from server.streaming import downloads
from service.storage import check_path
from store import artifacts, tables
from store.database import Database

router = APIRouter(prefix="/jobs/{job_id}/artifacts", tags=["artifacts"])

BYTES: Final[dict[str, Any]] = {
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
}
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
    responses={
        200: {"content": BYTES, "description": "The file; its ETag is its SHA-256."},
        206: {"content": BYTES, "description": "The bytes that `Range` requests."},
        304: {"description": "The client already has this version."},
        **problems(404, 416, 502),
    },
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
    return await downloads.file_response(request, file, storage, streams, authenticator)


def _find(database: Database, job_id: str, path: str) -> tables.Artifact:
    """The row of a file: the storage is accessed only for files that have one."""
    with database.read() as session:
        file = artifacts.get(session, job_id, path)
    if file is None:
        raise NotFound(f"The job has no file {path[:80]!r}.")
    return file

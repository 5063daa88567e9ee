"""The pictures of tracked runs: upload one, list those of a run."""

from typing import Annotated, Final

from anyio.to_thread import run_sync
from fastapi import Path, Query, Request, Response

from ampspec.api.files import Sha256
from ampspec.api.job.artifacts import JobImage, JobImageList
from ampspec.api.runs import RunStatus
from ampspec.jobs.run_images import IMAGE_NAME, MAX_IMAGE_BYTES, MAX_IMAGE_NAME, name_of_image
from server.deps import (
    AuthenticatorDep,
    BodyReceiverDep,
    DatabaseDep,
    JobId,
    StorageDep,
    StreamsDep,
    VisibleJobId,
)
from server.documentation.openapi import BYTES_BODY, ETAG_RESPONSES, problems
from server.http.etag import respond_unless_body_cached
from server.http.receive_body import required_length
from server.http.responses import ModelResponse
from server.http.router import api_router
from server.http.streaming.streams import authorization_check
from server.row_models import from_row
from server.tracked_runs.images import UploadedImage, store_image
from server.tracked_runs.tracked_runs import TrackedRunsDep
from store.files import run_images

router = api_router("", tags=["runs"])

MAX_NUMBER: Final = 2**53
EntryNumber = Annotated[
    int, Path(ge=0, le=MAX_NUMBER, description="The number of entries in all earlier uploads.")
]
ImageName = Annotated[
    str,
    Query(pattern=f"^{IMAGE_NAME.pattern}$", max_length=MAX_IMAGE_NAME, description="Its name."),
]
ImageStep = Annotated[int, Query(ge=0, le=MAX_NUMBER, description="The step it belongs to.")]


@router.put(
    "/runs/{job_id}/images/{entry}",
    summary="Upload a picture",
    responses=problems(404, 409, 411, 413),
    openapi_extra=BYTES_BODY,
)
async def put(
    *,
    job_id: JobId,
    entry: EntryNumber,
    name: ImageName,
    step: ImageStep,
    sha256: Annotated[Sha256, Query(description="The SHA-256 of the file.")],
    runs: TrackedRunsDep,
    request: Request,
    receiver: BodyReceiverDep,
    storage: StorageDep,
    streams: StreamsDep,
    authenticator: AuthenticatorDep,
) -> RunStatus:
    """Store a PNG or JPEG file as an entry of a run, in the order of its number: idempotent."""
    length = required_length(request, MAX_IMAGE_BYTES)
    await run_sync(runs.check, job_id, limiter=receiver.threads)
    body = await receiver.receive(
        request,
        length,
        allowed=authorization_check(request, authenticator),
        is_stopping=streams.shutting_down.is_set,
    )
    body.require_whole()
    image = UploadedImage(job_id, entry, name, step, sha256)
    return await run_sync(store_image, runs, storage, image, body, limiter=receiver.completions)


@router.get(
    "/jobs/{job_id}/images",
    summary="List the pictures of a run",
    response_model=JobImageList,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def listing(job_id: VisibleJobId, database: DatabaseDep, request: Request) -> Response:
    """List the pictures of a tracked run by step; `artifacts/{path}` has the file of each."""
    with database.read() as session:
        images = JobImageList(
            items=[
                from_row(JobImage, row, {"name": name_of_image(row.path)})
                for row in run_images.listing(session, job_id)
            ]
        )
    return respond_unless_body_cached(request, ModelResponse(images))

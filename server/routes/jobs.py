"""Post, list, read, change and delete jobs."""

from functools import partial

from fastapi import APIRouter, Request, Response

from ampcore.preflight import preflight
from ampcore.spec import State
from server.deps import DatabaseDep, JobId, PostedSpec, job_id_of, no_job, principal_of, services_of
from server.http.documents import read_body
from server.http.etag import conditional, conditional_on_body
from server.intake import Draft
from server.jobs.bodies import CloneChangesDep, JobChangesDep
from server.jobs.cloning import document_of
from server.jobs.listing import ListingDep
from server.jobs.machines import online_machines
from server.jobs.posting import PostingDep, posting_of
from server.jobs.steering import CANCEL, EDIT, PAUSE, RESUME, RETRY, SteeringDep, found
from server.openapi import (
    CLONE_BODY,
    EDIT_BODY,
    JOB_ID_PARAMETER,
    KEY_PARAMETER,
    POSTED,
    SPEC_BODY,
    TAGGED,
    later,
    problems,
)
from server.views import Job, JobPage, Validation
from store import jobs

router = APIRouter(prefix="/jobs", tags=["jobs"])


@router.post(
    "",
    summary="Submit a job",
    status_code=201,
    response_model=Job,
    responses={**POSTED, **problems(409)},
    openapi_extra={**SPEC_BODY, **KEY_PARAMETER},
)
async def submit(request: Request) -> Response:
    """Queue a job. What was answered 201 is in the database and will not be lost."""
    posting = await posting_of(request)
    document = await read_body(request)
    draft = Draft(document, posting.principal.project)
    return await posting.post("job.submit", lambda: draft)


@router.post(
    "/validate",
    summary="Check a spec",
    openapi_extra=SPEC_BODY,
)
def validate(spec: PostedSpec, database: DatabaseDep) -> Validation:
    """Check a spec as POST /jobs would, and queue nothing.

    The answer foretells the job's size and what may disappoint, on the workers now online.
    """
    with database.read() as session:
        machines = online_machines(session)
    return Validation.model_validate(
        {"spec": spec.to_json(), **preflight(spec, machines).to_json()}
    )


@router.get("", summary="List jobs", response_model=JobPage, responses=TAGGED)
def listing(wanted: ListingDep, database: DatabaseDep, request: Request) -> Response:
    """List jobs: those of the token's project, for an admin those of every one.

    A page ends early where its jobs are large; `next_cursor` is null on the last one only.
    """
    page = Response(wanted.page(database), media_type="application/json")
    return conditional_on_body(request, page)


@router.get(
    "/{job_id}",
    summary="Read a job",
    response_model=Job,
    responses={**TAGGED, **problems(404)},
    openapi_extra=JOB_ID_PARAMETER,
)
async def read(request: Request) -> Response:
    """Read a job as it stands now; while it is queued, with why it waits."""
    job_id = job_id_of(request)
    job = await services_of(request).reads.read(job_id)
    if job is None or principal_of(request).sees not in (None, job.project):
        raise no_job(job_id)
    return conditional(request, job.etag, lambda: Response(job.body, media_type="application/json"))


@router.patch(
    "/{job_id}",
    summary="Change a job",
    response_model=Job,
    responses=problems(404),
    openapi_extra=EDIT_BODY,
)
def edit(job_id: JobId, changes: JobChangesDep, steering: SteeringDep) -> Response:
    """Give a job another name, other labels, or another priority; what is left out stays."""
    return steering.change(EDIT, job_id, partial(jobs.edit, changes=changes), **changes)


@router.delete(
    "/{job_id}",
    summary="Delete a job",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409),
)
def delete(job_id: JobId, steering: SteeringDep) -> Response:
    """Delete a job that has ended, with its steps, events, logs and files."""
    return steering.remove(job_id)


@router.post(
    "/{job_id}/cancel",
    summary="Cancel a job",
    response_model=Job,
    responses={**later(Job, "stop"), **problems(404, 409)},
)
def cancel(job_id: JobId, steering: SteeringDep) -> Response:
    """Cancel a job: a queued one at once; a running one is `cancelled` once its process is gone."""
    return steering.change(CANCEL, job_id, jobs.request_cancel, later=State.STOPPING)


@router.post(
    "/{job_id}/pause",
    summary="Pause a job",
    response_model=Job,
    responses={**later(Job, "pause"), **problems(404, 409)},
)
def pause(job_id: JobId, steering: SteeringDep) -> Response:
    """Pause a job: a queued one at once; a running one saves a checkpoint first."""
    return steering.change(PAUSE, job_id, jobs.request_pause, later=State.PAUSING)


@router.post(
    "/{job_id}/resume",
    summary="Resume a paused job",
    response_model=Job,
    responses=problems(404, 409),
)
def resume(job_id: JobId, steering: SteeringDep) -> Response:
    """Put a paused job into the queue again; it goes on from its checkpoint."""
    return steering.change(RESUME, job_id, jobs.resume)


@router.post(
    "/{job_id}/retry",
    summary="Retry a job that failed",
    response_model=Job,
    responses=problems(404, 409),
)
def retry(job_id: JobId, steering: SteeringDep) -> Response:
    """Put a failed or cancelled job into the queue again; it goes on from its last checkpoint."""
    return steering.change(RETRY, job_id, jobs.retry)


@router.post(
    "/{job_id}/clone",
    summary="Clone a job",
    status_code=201,
    response_model=Job,
    responses={**POSTED, **problems(404, 409)},
    openapi_extra={**CLONE_BODY, **KEY_PARAMETER},
)
async def clone(job_id: JobId, changes: CloneChangesDep, posting: PostingDep) -> Response:
    """Queue another job with the spec of this one, some fields of it set anew."""

    def draft() -> Draft:
        with posting.database.read() as session:
            job = found(session, job_id, posting.principal)
            return Draft(document_of(job, changes), job.project, cloned_from=job.id)

    return await posting.post("job.clone", draft)


BUSIEST = (submit, read)
"""What is asked for most: a run is posted once in a while, and many at once by a sweep."""

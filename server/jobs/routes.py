"""Submit, list, read, change and delete jobs."""

from functools import partial

from fastapi import APIRouter, Request, Response

from ampspec.api.job.jobs import Job, JobPage
from ampspec.api.job.validation import Validation
from ampspec.jobs import State
from ampspec.preflight import preflight
from server.deps import (
    DatabaseDep,
    JobId,
    PostedSpec,
    check_visible,
    job_id_of,
    job_not_found,
    principal_of,
    services_of,
)
from server.documentation.openapi import (
    CLONE_BODY,
    CREATED_RESPONSES,
    EDIT_BODY,
    ETAG_RESPONSES,
    EXTEND_BODY,
    IDEMPOTENCY_KEY_PARAMETER,
    JOB_ID_PARAMETER,
    PROFILE_BODY,
    SPEC_BODY,
    accepted_response,
    problems,
)
from server.http.etag import respond_unless_body_cached, respond_unless_cached
from server.jobs.actions import CANCEL, EDIT, PAUSE, PROFILE, RESUME, RETRY, JobActionsDep
from server.jobs.listing import JobListQueryDep
from server.jobs.request_models import CloneChangesDep, EpochsDep, JobChangesDep, ProfileStepsDep
from server.jobs.submission import submit_clone, submit_extension, submit_spec
from store import workers
from store.jobs import jobs

router = APIRouter(prefix="/jobs", tags=["jobs"])


@router.post(
    "",
    summary="Submit a job",
    status_code=201,
    response_model=Job,
    responses={**CREATED_RESPONSES, **problems(409)},
    openapi_extra={**SPEC_BODY, **IDEMPOTENCY_KEY_PARAMETER},
)
async def submit(request: Request) -> Response:
    """Queue a job. After the response 201 the job is stored durably."""
    return await submit_spec(request)


@router.post(
    "/validate",
    summary="Validate a spec",
    openapi_extra=SPEC_BODY,
)
def validate(spec: PostedSpec, database: DatabaseDep) -> Validation:
    """Validate a spec as POST /jobs does, without queuing a job.

    Returns an estimate of memory and FLOPs, and findings for the workers that are online now.
    """
    with database.read() as session:
        machines = workers.online_devices(session)
    return Validation.model_validate(
        {"spec": spec.to_json(), **preflight(spec, machines).to_json()}
    )


@router.get("", summary="List jobs", response_model=JobPage, responses=ETAG_RESPONSES)
def listing(wanted: JobListQueryDep, database: DatabaseDep, request: Request) -> Response:
    """List the jobs of the token's project; for admins, of all projects.

    A page with large jobs may have fewer than `limit`; only the last page has no `next_cursor`.
    """
    page = Response(wanted.page(database), media_type="application/json")
    return respond_unless_body_cached(request, page)


@router.get(
    "/{job_id}",
    summary="Read a job",
    response_model=Job,
    responses={**ETAG_RESPONSES, **problems(404)},
    openapi_extra=JOB_ID_PARAMETER,
)
async def read(request: Request) -> Response:
    """Read the current state of a job; for a queued job, also why it waits."""
    job_id = job_id_of(request)
    job = await services_of(request).job_reader.read(job_id)
    if job is None:
        raise job_not_found(job_id)
    check_visible(principal_of(request), job_id, job.project)
    return respond_unless_cached(
        request, job.etag, lambda: Response(job.body, media_type="application/json")
    )


@router.patch(
    "/{job_id}",
    summary="Change a job",
    response_model=Job,
    responses=problems(404),
    openapi_extra=EDIT_BODY,
)
def edit(job_id: JobId, changes: JobChangesDep, actions: JobActionsDep) -> Response:
    """Change the name, labels or priority of a job; fields that are left out stay."""
    return actions.change(EDIT, job_id, partial(jobs.edit, changes=changes), **changes)


@router.delete(
    "/{job_id}",
    summary="Delete a job",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409),
)
def delete(job_id: JobId, actions: JobActionsDep) -> Response:
    """Delete a job that has ended, with its steps, events, logs and files."""
    return actions.remove(job_id)


@router.post(
    "/{job_id}/cancel",
    summary="Cancel a job",
    response_model=Job,
    responses={**accepted_response(Job, "stop"), **problems(404, 409)},
)
def cancel(job_id: JobId, actions: JobActionsDep) -> Response:
    """Cancel a job: a queued one immediately, a running one once its process has ended."""
    return actions.change(CANCEL, job_id, jobs.request_cancel, later=State.STOPPING)


@router.post(
    "/{job_id}/pause",
    summary="Pause a job",
    response_model=Job,
    responses={**accepted_response(Job, "pause"), **problems(404, 409)},
)
def pause(job_id: JobId, actions: JobActionsDep) -> Response:
    """Pause a job: a queued one immediately, a running one after a checkpoint."""
    return actions.change(PAUSE, job_id, jobs.request_pause, later=State.PAUSING)


@router.post(
    "/{job_id}/profile",
    summary="Profile a running job",
    response_model=Job,
    responses=problems(404, 409),
    openapi_extra=PROFILE_BODY,
)
def profile(job_id: JobId, steps: ProfileStepsDep, actions: JobActionsDep) -> Response:
    """Profile the next steps of a running job.

    Its event `profile` names the files with the report and the traces. A profile is lost if the
    job is paused or its worker dies before.
    """
    change = partial(jobs.request_profile, steps=steps)
    return actions.change(PROFILE, job_id, change, steps=steps)


@router.post(
    "/{job_id}/resume",
    summary="Resume a paused job",
    response_model=Job,
    responses=problems(404, 409),
)
def resume(job_id: JobId, actions: JobActionsDep) -> Response:
    """Queue a paused job again; it resumes from its checkpoint."""
    return actions.change(RESUME, job_id, jobs.resume)


@router.post(
    "/{job_id}/retry",
    summary="Retry a failed or cancelled job",
    response_model=Job,
    responses=problems(404, 409),
)
def retry(job_id: JobId, actions: JobActionsDep) -> Response:
    """Queue a failed or cancelled job again; it resumes from its last checkpoint."""
    return actions.change(RETRY, job_id, jobs.retry)


@router.post(
    "/{job_id}/clone",
    summary="Clone a job",
    status_code=201,
    response_model=Job,
    responses={**CREATED_RESPONSES, **problems(404, 409)},
    openapi_extra={**CLONE_BODY, **IDEMPOTENCY_KEY_PARAMETER},
)
async def clone(job_id: JobId, changes: CloneChangesDep, request: Request) -> Response:
    """Queue a new job with the spec of this one and some changed fields."""
    return await submit_clone(request, job_id, changes)


@router.post(
    "/{job_id}/extend",
    summary="Extend a job",
    status_code=201,
    response_model=Job,
    responses={**CREATED_RESPONSES, **problems(404, 409)},
    openapi_extra={**EXTEND_BODY, **IDEMPOTENCY_KEY_PARAMETER},
)
async def extend(job_id: JobId, epochs: EpochsDep, request: Request) -> Response:
    """Queue a new job that continues a succeeded one for more epochs, from its last checkpoint."""
    return await submit_extension(request, job_id, epochs)


DIRECT_ENDPOINTS = (submit, read)
"""The endpoints with the most requests; they bypass FastAPI (server.http.direct_routes)."""

"""Submit, list, read, change and delete jobs."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from ampspec.api.job.jobs import Job, JobPage
from ampspec.api.job.validation import Validation
from ampspec.jobs import State
from ampspec.preflight import preflight
from server.deps import DatabaseDep, JobId, PostedSpec, checked_job_id
from server.documentation.openapi import (
    CREATED_RESPONSES,
    ETAG_RESPONSES,
    accepted_response,
    problems,
)
from server.http.router import CheckedRoute, api_router
from server.jobs.actions import CANCEL, EDIT, PAUSE, PROFILE, RESUME, RETRY, JobActionsDep
from server.jobs.bulk import Permanent
from server.jobs.listing import JobListQueryDep
from server.jobs.long_poll import LongPollDep, long_poll
from server.request_bodies import CloneBody, ExtensionBody, JobChangesBody, ProfileBody, SpecBody
from server.submissions.new_jobs import NewJobsDep
from store import workers
from store.jobs import jobs

router = api_router("/jobs", tags=["jobs"])


@router.post(
    "",
    summary="Submit a job",
    status_code=201,
    response_model=Job,
    responses={**CREATED_RESPONSES, **problems(409)},
)
async def submit(new_jobs: NewJobsDep, spec: SpecBody) -> Response:
    """Queue a job. After the response 201 the job is stored durably."""
    return await new_jobs.submit(spec)


@router.post("/validate", summary="Validate a spec")
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
async def listing(query: JobListQueryDep, database: DatabaseDep, poll: LongPollDep) -> Response:
    """List the jobs of the token's project; for admins, of all projects.

    A page with large jobs may have fewer than `limit`; only the last page has no `next_cursor`.
    With `id`, the request can wait for a change of these jobs, or for their end.
    """
    return await poll.respond(query.search.ids, partial(run_in_threadpool, query.page, database))


async def read(job_id: JobId, poll: LongPollDep) -> Response:
    """Read the current state of a job, at once or once it has changed or ended.

    For a queued job `waiting` says why it waits.
    """
    return await poll.respond([job_id], partial(poll.read_job, job_id))


class _ReadRoute(CheckedRoute):
    """Reads a job at once, without the time that FastAPI takes to resolve dependencies.

    A request without a query string has nothing to parse but the job's id, and it is the most
    frequent one.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def read_at_once(request: Request) -> Response:
            if request.scope["query_string"]:
                return await handle(request)
            job_id = await checked_job_id(request.path_params["job_id"])
            return await read(job_id, await long_poll(request))

        return read_at_once


router.add_api_route(
    "/{job_id}",
    read,
    summary="Read a job",
    response_model=Job,
    responses={**ETAG_RESPONSES, **problems(404)},
    route_class_override=_ReadRoute,
)


@router.patch(
    "/{job_id}",
    summary="Change a job",
    response_model=Job,
    responses=problems(404),
)
def edit(job_id: JobId, changes: JobChangesBody, actions: JobActionsDep) -> Response:
    """Change the name, labels or priority of a job; fields that are left out stay."""
    fields = changes.model_dump(exclude_unset=True)
    return actions.change(EDIT, job_id, partial(jobs.edit, changes=fields), **fields)


@router.delete(
    "/{job_id}",
    summary="Delete a job",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409),
)
def delete(job_id: JobId, actions: JobActionsDep, permanent: Permanent = False) -> Response:
    """Put a job that has ended into the trash: it is found by no other route, and can be restored.

    After a day, or with `permanent` at once, it is deleted with its steps, events, logs and files.
    """
    return actions.remove(job_id, permanent=permanent)


@router.post(
    "/{job_id}/restore",
    summary="Restore a job from the trash",
    response_model=Job,
    responses=problems(404),
)
def restore(job_id: JobId, actions: JobActionsDep) -> Response:
    """Take a job out of the trash, with all that it had. Idempotent."""
    return actions.restore(job_id)


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
)
def profile(job_id: JobId, body: ProfileBody, actions: JobActionsDep) -> Response:
    """Profile the next steps of a running job.

    Its event `profile` names the files with the report and the traces. A profile is lost if the
    job is paused or its worker dies before.
    """
    change = partial(jobs.request_profile, steps=body.steps)
    return actions.change(PROFILE, job_id, change, steps=body.steps)


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
)
async def clone(new_jobs: NewJobsDep, job_id: JobId, changes: CloneBody) -> Response:
    """Queue a new job with the spec of this one and some changed fields."""
    return await new_jobs.clone(job_id, changes.set)


@router.post(
    "/{job_id}/extend",
    summary="Extend a job",
    status_code=201,
    response_model=Job,
    responses={**CREATED_RESPONSES, **problems(404, 409)},
)
async def extend(new_jobs: NewJobsDep, job_id: JobId, body: ExtensionBody) -> Response:
    """Queue a new job that continues a succeeded one for more epochs, from its last checkpoint."""
    return await new_jobs.extend(job_id, body.epochs)

"""Post, list, read and cancel jobs."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from ampcore.preflight import preflight
from ampcore.spec import State
from server.deps import DatabaseDep, JobId, PostedSpec, WakeDep
from server.errors import Conflict, NotFound
from server.machines import online_machines
from server.openapi import SPEC_BODY, problems
from server.paging import cursor_of, read_cursor
from server.views import Job, JobPage, Validation
from server.wake import wake_workers
from store import jobs

router = APIRouter(prefix="/jobs", tags=["jobs"])

States = Annotated[
    list[State], Query(default_factory=list, description="Only in these states; may be repeated.")
]
Limit = Annotated[int, Query(ge=1, le=100)]
Cursor = Annotated[str | None, Query(max_length=200, description="`next_cursor` of a page.")]


@router.post(
    "",
    summary="Submit a job",
    status_code=201,
    responses=problems(400, 413, 422),
    openapi_extra=SPEC_BODY,
)
def submit(spec: PostedSpec, response: Response, database: DatabaseDep, wake: WakeDep) -> Job:
    """Queue a job. What was answered 201 is in the database and will not be lost."""
    with database.write() as session:
        job = Job.of(jobs.create(session, spec))
    wake_workers(database, wake, [job.id])
    response.headers["Location"] = f"/api/v1/jobs/{job.id}"
    return job


@router.post(
    "/validate",
    summary="Check a spec",
    responses=problems(400, 413, 422),
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


@router.get("", summary="List jobs", responses=problems(422))
def listing(
    database: DatabaseDep, state: States, limit: Limit = 50, cursor: Cursor = None
) -> JobPage:
    """List jobs, the newest first."""
    before = read_cursor(cursor) if cursor is not None else None
    with database.read() as session:
        rows = jobs.page(session, states=state, before=before, limit=limit + 1)
        further = cursor_of(rows[limit - 1]) if len(rows) > limit else None
        return JobPage(items=[Job.of(row) for row in rows[:limit]], next_cursor=further)


@router.get("/{job_id}", summary="Read a job", responses=problems(404, 422))
def read(job_id: JobId, database: DatabaseDep) -> Job:
    """Read a job as it stands now."""
    with database.read() as session:
        job = jobs.get(session, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id!r}.")
        return Job.of(job)


@router.post(
    "/{job_id}/cancel",
    summary="Cancel a job",
    responses={
        202: {"model": Job, "description": "Its worker was asked to stop it."},
        **problems(404, 409, 422),
    },
)
def cancel(job_id: JobId, database: DatabaseDep, response: Response) -> Job:
    """Cancel a job: a queued one at once; a running one is `cancelled` once its process is gone."""
    with database.write() as session:
        row = jobs.request_cancel(session, job_id)
        job = Job.of(row) if row is not None else None
    if job is None:
        raise Conflict(f"The job has ended already; it is {read(job_id, database).state}.")
    response.status_code = 202 if job.state is State.STOPPING else 200
    return job

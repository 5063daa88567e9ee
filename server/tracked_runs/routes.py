"""Tracked runs: create a run, upload its telemetry, finish and resume it."""

from fastapi import Response

from ampspec.api.job.jobs import Job
from ampspec.api.runs import RunEnd, RunEntries, RunStatus
from ampspec.jobs.tracked import TrackedSpec
from server.deps import JobId
from server.documentation.openapi import CREATED_RESPONSES, problems
from server.http.json_body import JsonRoute
from server.http.router import api_router
from server.tracked_runs.tracked_runs import TrackedRunsDep

router = api_router("/runs", tags=["runs"], route_class=JsonRoute)


@router.post(
    "",
    summary="Create a tracked run",
    status_code=201,
    response_model=Job,
    responses=CREATED_RESPONSES,
)
def create(spec: TrackedSpec, runs: TrackedRunsDep) -> Response:
    """Create a job that is trained elsewhere; its state is `running`, and its attempt is 1."""
    return runs.create(spec)


@router.post("/{job_id}/steps", summary="Upload telemetry", responses=problems(404, 409))
def upload(job_id: JobId, body: RunEntries, runs: TrackedRunsDep) -> RunStatus:
    """Store steps, events and log text of a tracked run, and renew its lease.

    Each entry is stored once, in the order of its number: uploads are idempotent.
    """
    return runs.upload(job_id, body)


@router.post("/{job_id}/resume", summary="Resume a tracked run", responses=problems(404, 409, 429))
def resume(job_id: JobId, runs: TrackedRunsDep) -> RunStatus:
    """Let a run that has failed or was cancelled go on; the response says what is stored of it.

    A run that has not ended stays as it is. One that has succeeded is final: 409.
    """
    return runs.resume(job_id)


@router.post(
    "/{job_id}/finish",
    summary="Finish a tracked run",
    response_model=Job,
    responses=problems(404, 409),
)
def finish(job_id: JobId, end: RunEnd, runs: TrackedRunsDep) -> Response:
    """End a tracked run whose entries are all stored."""
    return runs.finish(job_id, end)

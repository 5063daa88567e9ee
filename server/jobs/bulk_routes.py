"""Submit several jobs with one request; cancel, delete or label all jobs that match a filter."""

from fastapi import Response

from ampspec.api.job.jobs import ChangedJobs, SubmittedJobs
from server.documentation.openapi import problems
from server.http.router import api_router
from server.jobs.actions import JobActionsDep
from server.jobs.bulk import (
    MAX_CHANGED,
    BulkFiltersDep,
    ChangeLimit,
    Permanent,
    cancel_jobs,
    delete_jobs,
    label_jobs,
)
from server.request_bodies import LabelChangesBody, SpecsBody
from server.submissions.new_jobs import NewJobsDep

router = api_router("/jobs", tags=["jobs"])


@router.post(
    "/batch",
    summary="Submit several jobs",
    status_code=201,
    response_model=SubmittedJobs,
    responses=problems(409),
)
async def submit(new_jobs: NewJobsDep, specs: SpecsBody) -> Response:
    """Queue up to 100 jobs in one transaction: all of them, or none if one is refused."""
    return await new_jobs.submit_batch(specs)


@router.post("/cancel", summary="Cancel jobs by filter", response_model=ChangedJobs)
def cancel(
    filters: BulkFiltersDep, actions: JobActionsDep, limit: ChangeLimit = MAX_CHANGED
) -> Response:
    """Cancel the jobs that match all given filters, which are those of the list; one is required.

    Queued and paused jobs are cancelled immediately, running ones once their processes have ended.
    Idempotent; `more` says whether to send it again.
    """
    return cancel_jobs(actions, filters, limit)


@router.post("/delete", summary="Delete jobs by filter", response_model=ChangedJobs)
def delete(
    filters: BulkFiltersDep,
    actions: JobActionsDep,
    limit: ChangeLimit = MAX_CHANGED,
    permanent: Permanent = False,
) -> Response:
    """Put the ended jobs that match all given filters, which are those of the list, into the trash.

    One filter is required. Jobs that have not ended stay, and so do those that an unfinished job
    extends or explains. After a day, or with `permanent` at once, they are deleted with their
    files. Idempotent; `more` says whether to send it again.
    """
    return delete_jobs(actions, filters, limit, permanent=permanent)


@router.post(
    "/label",
    summary="Label jobs by filter",
    response_model=ChangedJobs,
    responses=problems(409),
)
def label(
    filters: BulkFiltersDep,
    changes: LabelChangesBody,
    actions: JobActionsDep,
    limit: ChangeLimit = MAX_CHANGED,
) -> Response:
    """Set or remove labels of the jobs that match all given filters, which are those of the list.

    One filter is required. Labels that are not named stay, and jobs that have the new labels
    already are not in `ids`. Idempotent; `more` says whether to send it again.
    """
    return label_jobs(actions, filters, changes.labels, limit)

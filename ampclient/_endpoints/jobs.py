"""Requests that submit, list and change jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ampclient._endpoints.request import (
    JsonRequest,
    Params,
    idempotency_header,
    items_of,
    job_path,
    params,
    parse_nothing,
)
from ampclient._job.view import JobView, JobViewPage, SubmittedJobViews
from ampspec.api.job.jobs import ChangedJobs
from ampspec.api.job.validation import Validation


@dataclass(frozen=True, kw_only=True)
class JobSearch:
    """The filters and the order of a list of jobs; empty filters match all jobs."""

    states: Sequence[str] = ()
    labels: Sequence[str] = ()
    """Each `key=value`, or `key` for any value."""
    metrics: Sequence[str] = ()
    """Each a condition on a metric, as in `val_accuracy>=0.9`."""
    q: str | None = None
    policy: str | None = None
    model: str | None = None
    project: str | None = None
    created_after: str | None = None
    created_before: str | None = None
    explanations: bool = False
    """Whether to list jobs that explain a step of another one, too."""
    study: str | None = None
    """Only the jobs of this study."""
    in_trash: bool = False
    """Only the jobs in the trash."""
    fold_studies: bool = False
    """Whether one job of each study stands for the others."""
    sort: str | None = None
    fields: Sequence[str] = ()
    """Additional fields of each job."""

    @property
    def params(self) -> Params:
        """The search as query parameters."""
        several = [("state", state) for state in self.states]
        several += [("label", label) for label in self.labels]
        several += [("metric", metric) for metric in self.metrics]
        several += [("fields", field) for field in self.fields]
        return several + params(
            q=self.q,
            policy=self.policy,
            model=self.model,
            project=self.project,
            created_after=self.created_after,
            created_before=self.created_before,
            explanations="true" if self.explanations else None,
            study=self.study,
            trash="true" if self.in_trash else None,
            fold_studies="true" if self.fold_studies else None,
            sort=self.sort,
        )


def submit_job(spec: Mapping[str, Any], key: str) -> JsonRequest[JobView]:
    """Queue a job; the same key returns the same job."""
    return _post("/jobs", body=spec, headers=idempotency_header(key))


def submit_jobs(specs: Sequence[Mapping[str, Any]], key: str) -> JsonRequest[list[JobView]]:
    """Queue several jobs; the same key returns the same jobs."""
    return JsonRequest(
        method="POST",
        path="/jobs/batch",
        body={"specs": list(specs)},
        headers=idempotency_header(key),
        read=items_of(SubmittedJobViews),
    )


def cancel_jobs(search: JobSearch) -> JsonRequest[ChangedJobs]:
    """Cancel the first jobs that match."""
    return _change_jobs("cancel", search)


def delete_jobs(search: JobSearch, *, permanent: bool = False) -> JsonRequest[ChangedJobs]:
    """Delete the first ended jobs that match; they can be restored unless `permanent`."""
    return _change_jobs("delete", search, _permanent(permanent))


def _permanent(permanent: bool) -> Params:
    return params(permanent="true" if permanent else None)


def _change_jobs(action: str, search: JobSearch, more: Params = ()) -> JsonRequest[ChangedJobs]:
    return JsonRequest(
        method="POST",
        path=f"/jobs/{action}",
        params=[*search.params, *more],
        headers=idempotency_header(),
        read=ChangedJobs.from_json,
    )


def clone_job(job_id: str, assignments: Mapping[str, Any], key: str) -> JsonRequest[JobView]:
    """Queue a job with the spec of another one, with each path of `assignments` set in it."""
    body = {"set": dict(assignments)} if assignments else {}
    return _post(job_path(job_id, "clone"), body=body, headers=idempotency_header(key))


def extend_job(job_id: str, epochs: int, key: str) -> JsonRequest[JobView]:
    """Queue a job that continues another one for more epochs; the same key returns the same job."""
    path = job_path(job_id, "extend")
    return _post(path, body={"epochs": epochs}, headers=idempotency_header(key))


def validate_job(spec: Mapping[str, Any]) -> JsonRequest[Validation]:
    """Validate a spec without queuing a job."""
    path, read = "/jobs/validate", Validation.from_json
    return JsonRequest(method="POST", path=path, body=spec, is_read_only=True, read=read)


@dataclass(frozen=True)
class Wait:
    """How long the server may hold a request for jobs: until one has changed, or all have ended."""

    seconds: float
    until: Literal["change", "terminal"] = "change"

    @property
    def params(self) -> Params:
        """The query parameters; none if the server must not wait."""
        return params(wait=f"{self.seconds:g}", until=self.until) if self.seconds > 0 else []


NO_WAIT: Final = Wait(0)
JOBS_PER_REQUEST: Final = 100
"""The most ids that a server takes at a time."""


def get_job(job_id: str, wait: Wait = NO_WAIT) -> JsonRequest[JobView]:
    """One job."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id),
        params=wait.params,
        uses_etag=True,
        wait_s=wait.seconds,
        read=JobView.from_json,
    )


def get_jobs(job_ids: Sequence[str], wait: Wait = NO_WAIT) -> JsonRequest[list[JobView]]:
    """Up to JOBS_PER_REQUEST jobs without their specs; those that do not exist are left out."""
    return JsonRequest(
        method="GET",
        path="/jobs",
        params=[("id", ",".join(job_ids)), *wait.params],
        uses_etag=True,
        wait_s=wait.seconds,
        read=items_of(JobViewPage),
    )


def list_jobs(search: JobSearch, limit: int, cursor: str | None) -> JsonRequest[JobViewPage]:
    """A page of the jobs that match."""
    place = params(limit=limit, cursor=cursor)
    return JsonRequest(
        method="GET", path="/jobs", params=[*search.params, *place], read=JobViewPage.from_json
    )


def job_changes(**values: Any) -> dict[str, Any]:
    """What to change of a job: the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def edit_job(job_id: str, changes: Mapping[str, Any]) -> JsonRequest[JobView]:
    """Change the `name`, `labels` or `priority` of a job."""
    path = job_path(job_id)
    return JsonRequest(
        method="PATCH",
        path=path,
        body=changes,
        headers=idempotency_header(),
        read=JobView.from_json,
    )


def delete_job(job_id: str, *, permanent: bool = False) -> JsonRequest[None]:
    """Delete a job that has ended; it can be restored unless `permanent`."""
    return JsonRequest(
        method="DELETE",
        path=job_path(job_id),
        params=_permanent(permanent),
        headers=idempotency_header(),
        read=parse_nothing,
    )


def restore_job(job_id: str) -> JsonRequest[JobView]:
    """Take a job out of the trash."""
    return _post(job_path(job_id, "restore"), headers=idempotency_header())


def cancel_job(job_id: str) -> JsonRequest[JobView]:
    """Cancel a job."""
    return _post(job_path(job_id, "cancel"), headers=idempotency_header())


def pause_job(job_id: str) -> JsonRequest[JobView]:
    """Pause a job at a checkpoint."""
    return _post(job_path(job_id, "pause"), headers=idempotency_header())


def profile_job(job_id: str, steps: int) -> JsonRequest[JobView]:
    """Profile the next steps of a running job."""
    return _post(job_path(job_id, "profile"), body={"steps": steps}, headers=idempotency_header())


def resume_job(job_id: str) -> JsonRequest[JobView]:
    """Queue a paused job again."""
    return _post(job_path(job_id, "resume"), headers=idempotency_header())


def retry_job(job_id: str) -> JsonRequest[JobView]:
    """Queue a failed or cancelled job again."""
    return _post(job_path(job_id, "retry"), headers=idempotency_header())


def _post(path: str, **more: Any) -> JsonRequest[JobView]:
    return JsonRequest(method="POST", path=path, read=JobView.from_json, **more)

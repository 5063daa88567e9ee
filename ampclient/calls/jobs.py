"""Jobs: post them, find them, steer them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ampclient.calls.call import Call, Params, items, job_path, keyed, nothing, params
from ampclient.views import JobView, Validated

JOBS_PER_PAGE: Final = 100


@dataclass(frozen=True)
class JobsPage:
    """Some jobs, and where the list goes on."""

    jobs: list[JobView]
    next_cursor: str | None


@dataclass(frozen=True, kw_only=True)
class Search:
    """Which jobs are listed, and in which order; a part that is left empty asks for nothing."""

    states: Sequence[str] = ()
    labels: Sequence[str] = ()
    """Each `key=value`, or `key` for any value."""
    q: str | None = None
    policy: str | None = None
    model: str | None = None
    project: str | None = None
    created_after: str | None = None
    sort: str | None = None
    fields: Sequence[str] = ()
    """What is told of each job beside the rest."""

    @property
    def params(self) -> Params:
        """It in the words of the query string."""
        several = [("state", state) for state in self.states]
        several += [("label", label) for label in self.labels]
        several += [("fields", field) for field in self.fields]
        return several + params(
            q=self.q,
            policy=self.policy,
            model=self.model,
            project=self.project,
            created_after=self.created_after,
            sort=self.sort,
        )


def submit_job(spec: Mapping[str, Any], key: str) -> Call[JobView]:
    """Queue a job; sent again with the same key it is answered with the same job."""
    return _post("/jobs", body=spec, headers=keyed(key))


def clone_job(job_id: str, assignments: Mapping[str, Any], key: str) -> Call[JobView]:
    """Queue a job with the spec of another one, with each path of `assignments` set in it."""
    body = {"set": dict(assignments)} if assignments else {}
    return _post(job_path(job_id, "clone"), body=body, headers=keyed(key))


def validate_job(spec: Mapping[str, Any]) -> Call[Validated]:
    """Check a spec, queue nothing."""
    path, read = "/jobs/validate", Validated.from_json
    return Call(method="POST", path=path, body=spec, only_asks=True, read=read)


def get_job(job_id: str) -> Call[JobView]:
    """One job as it is now."""
    return Call(method="GET", path=job_path(job_id), conditional=True, read=JobView.from_json)


def list_jobs(search: Search, *, limit: int, cursor: str | None) -> Call[JobsPage]:
    """A page of the jobs that are searched for."""
    place = params(limit=limit, cursor=cursor)
    return Call(method="GET", path="/jobs", params=[*search.params, *place], read=_jobs_page)


def edit_job(job_id: str, changes: Mapping[str, Any]) -> Call[JobView]:
    """Give a job another `name`, `labels` or `priority`."""
    path = job_path(job_id)
    return Call(method="PATCH", path=path, body=changes, headers=keyed(), read=JobView.from_json)


def delete_job(job_id: str) -> Call[None]:
    """Delete a job that has ended."""
    return Call(method="DELETE", path=job_path(job_id), headers=keyed(), read=nothing)


def cancel_job(job_id: str) -> Call[JobView]:
    """Ask for a job's end."""
    return _post(job_path(job_id, "cancel"), headers=keyed())


def pause_job(job_id: str) -> Call[JobView]:
    """Ask a job to stop at a checkpoint."""
    return _post(job_path(job_id, "pause"), headers=keyed())


def resume_job(job_id: str) -> Call[JobView]:
    """Queue a paused job again."""
    return _post(job_path(job_id, "resume"), headers=keyed())


def retry_job(job_id: str) -> Call[JobView]:
    """Queue a job again that ended badly."""
    return _post(job_path(job_id, "retry"), headers=keyed())


def _post(path: str, **more: Any) -> Call[JobView]:
    return Call(method="POST", path=path, read=JobView.from_json, **more)


def _jobs_page(document: Any) -> JobsPage:
    return JobsPage(items(JobView)(document), document["next_cursor"])

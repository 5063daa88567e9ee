"""Requests for the event stream of a job and for comparisons of jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ampclient._compare.comparison import Comparison
from ampclient._endpoints.request import JsonRequest, Request, job_path, params
from ampclient._job.view import JobView

STREAM_KINDS: Final = ("steps", "events", "logs")


@dataclass(frozen=True)
class StreamQuery:
    """The kinds of entries of an event stream, and the columns of its steps."""

    kinds: Sequence[str] = STREAM_KINDS
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not self.kinds or set(self.kinds) - set(STREAM_KINDS):
            expected = ", ".join(STREAM_KINDS)
            raise ValueError(f"expected kinds among {expected}; received {list(self.kinds)}")


def stream_job(job_id: str, query: StreamQuery, *, after_seq: int) -> Request:
    """The event stream after the entry with this `seq`, then live until the job ends."""
    columns = None if query.columns is None else ",".join(query.columns)
    return Request(
        method="GET",
        path=job_path(job_id, "stream"),
        params=[*(("kinds", kind) for kind in query.kinds), *params(columns=columns)],
        headers=[("Accept", "text/event-stream"), ("Last-Event-ID", str(after_seq))],
    )


def job_id_of(job: str | JobView) -> str:
    """The id of a job, given the job or its id."""
    return job if isinstance(job, str) else job.id


def compare_jobs(
    job_ids: Sequence[str],
    *,
    baseline: str | None,
    columns: Sequence[str] | None,
    max_points: int,
) -> JsonRequest[Comparison]:
    """A comparison of jobs."""
    query = params(
        jobs=",".join(job_ids),
        baseline=baseline,
        columns=None if columns is None else ",".join(columns),
        max_points=max_points,
    )
    return JsonRequest(method="GET", path="/compare", params=query, read=Comparison.from_json)

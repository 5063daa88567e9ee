"""Requests for the events, attempts, allocations, logs and files of a job."""

from collections.abc import Sequence
from typing import Final

from ampclient._endpoints.request import (
    JsonRequest,
    Request,
    items_of,
    job_path,
    params,
    quote_path,
)
from ampspec.api.job.allocations import Allocation, AllocationList
from ampspec.api.job.artifacts import Artifact, ArtifactList
from ampspec.api.job.attempts import Attempt, AttemptList
from ampspec.api.job.evaluations import EvaluationPage
from ampspec.api.job.events import EventPage
from ampspec.api.job.logs import LogEntry, LogPage
from ampspec.api.job.ranges import Ranges

ENTRIES_PER_PAGE: Final = 1_000
EVALUATIONS_PER_PAGE: Final = 10_000


def get_events(
    job_id: str, *, after_seq: int | None, types: Sequence[str] = (), limit: int = ENTRIES_PER_PAGE
) -> JsonRequest[EventPage]:
    """A page of the event log, of all types without `types`."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id, "events"),
        params=[
            *params(after=after_seq, limit=limit),
            *(("type", event_type) for event_type in types),
        ],
        read=EventPage.from_json,
    )


def get_evaluations(job_id: str, *, after_step: int | None) -> JsonRequest[EvaluationPage]:
    """A page of the evaluations."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id, "evaluations"),
        params=params(after=after_step, limit=EVALUATIONS_PER_PAGE),
        read=EvaluationPage.from_json,
    )


def get_ranges(
    job_id: str, *, number_format: str, start: int | None, end: int | None, max_samples: int | None
) -> JsonRequest[Ranges]:
    """The range samples, and the report of a number format."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id, "ranges"),
        params=params(format=number_format, start=start, end=end, max_samples=max_samples),
        read=Ranges.from_json,
    )


def list_attempts(job_id: str) -> JsonRequest[list[Attempt]]:
    """All attempts at a job, in order."""
    return JsonRequest(method="GET", path=job_path(job_id, "attempts"), read=items_of(AttemptList))


def list_allocations(job_id: str) -> JsonRequest[list[Allocation]]:
    """All allocations of a job, oldest first."""
    return JsonRequest(
        method="GET", path=job_path(job_id, "allocations"), read=items_of(AllocationList)
    )


def get_logs(job_id: str, *, after_seq: int | None, attempt: int | None) -> JsonRequest[LogPage]:
    """A page of the log."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id, "logs"),
        params=params(after=after_seq, attempt=attempt, limit=ENTRIES_PER_PAGE),
        read=LogPage.from_json,
    )


def follow_logs(
    job_id: str, *, after_seq: int | None, attempt: int | None
) -> JsonRequest[LogEntry]:
    """The log, then live entries until the job ends; one JSON document per line."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id, "logs"),
        params=params(follow="true", after=after_seq, attempt=attempt),
        headers=[("Accept", "application/x-ndjson")],
        read=LogEntry.from_json,
    )


def list_artifacts(job_id: str) -> JsonRequest[list[Artifact]]:
    """The files of a job."""
    return JsonRequest(
        method="GET", path=job_path(job_id, "artifacts"), read=items_of(ArtifactList)
    )


def get_artifact(job_id: str, path: str, *, start: int) -> Request:
    """The bytes of a file from offset `start` on."""
    # No compression: a range of a compressed response could not be resumed.
    headers = [("Accept", "*/*"), ("Accept-Encoding", "identity")]
    headers += [("Range", f"bytes={start}-")] if start else []
    segments = [quote_path(part) for part in path.split("/")]
    return Request(method="GET", path=job_path(job_id, "artifacts", *segments), headers=headers)

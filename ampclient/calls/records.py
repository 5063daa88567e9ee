"""What a job leaves behind: events, attempts, printed text, files."""

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from ampclient.calls.call import Call, Request, items, job_path, params, segment
from ampclient.views import Artifact, Attempt, JobEvent, LogEntry, View

V = TypeVar("V", bound=View)

ENTRIES_PER_PAGE: Final = 1_000


@dataclass(frozen=True)
class EntriesPage(Generic[V]):
    """Entries in the order of their seq, and where to go on reading."""

    entries: list[V]
    next: int | None
    more: bool


def get_events(job_id: str, *, after: int | None) -> Call[EntriesPage[JobEvent]]:
    """A page of the ledger."""
    return Call(
        method="GET",
        path=job_path(job_id, "events"),
        params=params(after=after, limit=ENTRIES_PER_PAGE),
        read=lambda document: _entries_page(JobEvent, document),
    )


def list_attempts(job_id: str) -> Call[list[Attempt]]:
    """Every attempt at a job, the first one first."""
    return Call(method="GET", path=job_path(job_id, "attempts"), read=items(Attempt))


def get_logs(job_id: str, *, after: int | None, attempt: int | None) -> Call[EntriesPage[LogEntry]]:
    """A page of what was printed."""
    return Call(
        method="GET",
        path=job_path(job_id, "logs"),
        params=params(after=after, attempt=attempt, limit=ENTRIES_PER_PAGE),
        read=lambda document: _entries_page(LogEntry, document),
    )


def follow_logs(job_id: str, *, after: int | None, attempt: int | None) -> Call[LogEntry]:
    """What was printed and what will be, until the job ends; each line holds one document."""
    return Call(
        method="GET",
        path=job_path(job_id, "logs"),
        params=params(follow="true", after=after, attempt=attempt),
        headers=[("Accept", "application/x-ndjson")],
        read=LogEntry.from_json,
    )


def list_artifacts(job_id: str) -> Call[list[Artifact]]:
    """The files that a job has left."""
    return Call(method="GET", path=job_path(job_id, "artifacts"), read=items(Artifact))


def get_artifact(job_id: str, path: str, *, start: int) -> Request:
    """The bytes of a file, from the one at `start` on."""
    # As it is stored: a range of compressed bytes would be of no use.
    headers = [("Accept", "*/*"), ("Accept-Encoding", "identity")]
    headers += [("Range", f"bytes={start}-")] if start else []
    segments = [segment(part) for part in path.split("/")]
    return Request(method="GET", path=job_path(job_id, "artifacts", *segments), headers=headers)


def _entries_page(view: type[V], document: Any) -> EntriesPage[V]:
    return EntriesPage(items(view)(document), document["next"], document["more"])

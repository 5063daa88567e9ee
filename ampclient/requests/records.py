"""What a job leaves behind: events, attempts, printed text, files."""

from typing import Final

from ampclient.requests.request import JsonRequest, Request, items_of, job_path, params, quote_path
from ampcore.api.artifacts import Artifact, ArtifactList
from ampcore.api.attempts import Attempt, AttemptList
from ampcore.api.events import EventPage
from ampcore.api.logs import LogEntry, LogPage

ENTRIES_PER_PAGE: Final = 1_000


def get_events(job_id: str, *, after: int | None) -> JsonRequest[EventPage]:
    """A page of the ledger."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id, "events"),
        params=params(after=after, limit=ENTRIES_PER_PAGE),
        read=EventPage.from_json,
    )


def list_attempts(job_id: str) -> JsonRequest[list[Attempt]]:
    """Every attempt at a job, the first one first."""
    return JsonRequest(method="GET", path=job_path(job_id, "attempts"), read=items_of(AttemptList))


def get_logs(job_id: str, *, after: int | None, attempt: int | None) -> JsonRequest[LogPage]:
    """A page of what was printed."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id, "logs"),
        params=params(after=after, attempt=attempt, limit=ENTRIES_PER_PAGE),
        read=LogPage.from_json,
    )


def follow_logs(job_id: str, *, after: int | None, attempt: int | None) -> JsonRequest[LogEntry]:
    """What was printed and what will be, until the job ends; each line holds one document."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id, "logs"),
        params=params(follow="true", after=after, attempt=attempt),
        headers=[("Accept", "application/x-ndjson")],
        read=LogEntry.from_json,
    )


def list_artifacts(job_id: str) -> JsonRequest[list[Artifact]]:
    """The files that a job has left."""
    return JsonRequest(
        method="GET", path=job_path(job_id, "artifacts"), read=items_of(ArtifactList)
    )


def get_artifact(job_id: str, path: str, *, start: int) -> Request:
    """The bytes of a file, from the one at `start` on."""
    # As it is stored: a range of compressed bytes would be of no use.
    headers = [("Accept", "*/*"), ("Accept-Encoding", "identity")]
    headers += [("Range", f"bytes={start}-")] if start else []
    segments = [quote_path(part) for part in path.split("/")]
    return Request(method="GET", path=job_path(job_id, "artifacts", *segments), headers=headers)

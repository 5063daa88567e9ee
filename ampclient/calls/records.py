"""What a job leaves behind: steps, events, attempts, printed text, files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ampclient.calls.call import Call, Request, items, job_path, params, segment
from ampclient.views import Artifact, Attempt, JobEvent, LogEntry, View

if TYPE_CHECKING:
    from ampcore.series import StepBlock

V = TypeVar("V", bound=View)

ENTRIES_PER_PAGE: Final = 1_000
STEPS_PER_PAGE: Final = 50_000  # some megabytes of JSON


@dataclass(frozen=True)
class StepsPage:
    """Consecutive steps (None: none were stored yet), and where to go on reading."""

    block: "StepBlock | None"
    next: int | None
    more: bool


@dataclass(frozen=True)
class EntriesPage(Generic[V]):
    """Entries in the order of their seq, and where to go on reading."""

    entries: list[V]
    next: int | None
    more: bool


def get_steps(
    job_id: str,
    *,
    start: int | None,
    end: int | None,
    after: int | None,
    columns: Sequence[str] | None,
    attempt: int | None,
) -> Call[StepsPage]:
    """A page of per-step values."""
    wanted = params(
        start=start,
        end=end,
        after=after,
        columns=",".join(columns) if columns is not None else None,
        attempt=attempt,
        limit=STEPS_PER_PAGE,
    )
    return Call(method="GET", path=job_path(job_id, "steps"), params=wanted, read=_steps_page)


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


def _steps_page(document: Any) -> StepsPage:
    from ampcore.series import StepBlock
    from ampcore.series.jsonable import column_from_json

    data = {name: column_from_json(values) for name, values in document["data"].items()}
    steps = data.pop("step")
    if steps and steps[-1] - steps[0] + 1 != len(steps):
        raise ValueError(f"steps {steps[0]} to {steps[-1]} with gaps or repeats")
    block = StepBlock(steps[0], data) if steps else None
    return StepsPage(block, document["next"], document["more"])

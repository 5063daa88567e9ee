"""What a job leaves behind: events, attempts, printed text, files."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ampclient.views.view import Reader, View, optional, restored


@dataclass(frozen=True, kw_only=True)
class JobEvent(View):
    """One entry of a job's ledger; `seq` orders it among everything the job reported."""

    seq: int
    type: str
    step: int | None
    attempt: int
    created_at: datetime
    data: dict[str, Any]

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The time, and numbers that may be non-finite."""
        return {"created_at": datetime.fromisoformat, "data": restored}


@dataclass(frozen=True, kw_only=True)
class Attempt(View):
    """One time that a worker took a job, and how that ended."""

    attempt: int
    worker_id: str
    waited_s: float
    """How long the job was in the queue before."""
    first_step: int | None
    """Where it began: 0, or the step after its checkpoint. None until it trains."""
    outcome: str | None
    """None while it goes on; else a state, or "handed_back", "lost"."""
    reason: str | None
    message: str | None
    started_at: datetime
    finished_at: datetime | None

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The times."""
        return {
            "started_at": datetime.fromisoformat,
            "finished_at": optional(datetime.fromisoformat),
        }


@dataclass(frozen=True, kw_only=True)
class LogEntry(View):
    """A piece of what a job's process printed: often some lines, sometimes a part of one."""

    seq: int
    attempt: int
    stream: str
    text: str
    created_at: datetime

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The time."""
        return {"created_at": datetime.fromisoformat}


@dataclass(frozen=True, kw_only=True)
class Artifact(View):
    """A file that a job has left: a checkpoint, the model, a report."""

    path: str
    kind: str
    step: int | None
    attempt: int
    size_bytes: int
    sha256: str
    created_at: datetime

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The time."""
        return {"created_at": datetime.fromisoformat}

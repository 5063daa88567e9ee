"""Write the telemetry of a running attempt in one transaction: fenced, in order, exactly once."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ampspec.telemetry import Event, EventType
from ampspec.telemetry.json_values import json_safe, storable_text
from ampspec.telemetry.metrics import metrics_of
from ampspec.telemetry.steps.block import BlockStats
from store import job_metrics
from store.files.artifacts import StoredArtifact
from store.leases import LEASE_S, LeaseStatus, renew_lease, renew_lease_and_advance
from store.notifications import outbox
from store.rows import insert_rows
from store.tables import Artifact, Base, EventRow, Job, LogRow, RangeRow, StepBlockRow


@dataclass(frozen=True)
class EncodedBlock:
    """A step block as it is stored: encoded bytes, and the statistics that queries need."""

    first_step: int
    count: int
    """Of the steps in the block, without those in its gaps."""
    stats: BlockStats
    payload: bytes
    latest: dict[str, Any]
    """Values of the block's last step, shown on the job."""
    totals: dict[str, Any] = field(default_factory=dict)
    """The totals of the job's steps up to the end of the block, shown on the job."""
    columns: tuple[str, ...] = ()
    """The names of its columns, if they are to be counted."""
    missing_steps: int = 0
    """How many steps between the first and the last one are not in the block."""

    @property
    def end_step(self) -> int:
        """The step after the last one."""
        return self.first_step + self.count + self.missing_steps


@dataclass(frozen=True)
class LogChunk:
    """A piece of a trainer's output; `stream` is `stdout` or `stderr`."""

    stream: str
    text: str


TelemetryEntry = EncodedBlock | Event | LogChunk | StoredArtifact


def append(
    session: Session,
    job_id: str,
    attempt: int,
    entries: Sequence[TelemetryEntry],
    *,
    entries_written: int,
    lease_s: float = LEASE_S,
) -> LeaseStatus | None:
    """Write entries of an attempt that has written `entries_written` entries before.

    One UPDATE of the job is the fence, the heartbeat, the order (every entry gets the job's next
    seq) and the guard against writing twice: a worker that lost the response to its commit may
    repeat the call. Returns None, and writes nothing, if another attempt owns the job or the
    job has ended.
    """
    count = len(entries)
    lease = renew_lease_and_advance(
        session,
        job_id,
        attempt,
        entries_written=entries_written,
        count=count,
        lease_s=lease_s,
        progress=_job_progress(entries),
    )
    if lease is None:
        return _lease_of_a_repeated_write(
            session, job_id, attempt, entries_written + count, lease_s
        )
    rows: dict[type[Base], list[dict[str, Any]]] = {}
    numbered = list(enumerate(entries, start=lease.seq - count + 1))
    for seq, entry in numbered:
        table, values = _table_and_values(entry)
        whose = {"job_id": job_id, "attempt": attempt, "seq": seq}
        rows.setdefault(table, []).append({**whose, **values})
    for table, table_rows in rows.items():
        insert_rows(session, table, *table_rows)
    if (metrics := _last_metrics(entries)) is not None:
        job_metrics.replace(session, job_id, metrics)
    events = [(seq, entry) for seq, entry in numbered if isinstance(entry, Event)]
    outbox.events_written(session, job_id, events)
    return lease


def _lease_of_a_repeated_write(
    session: Session, job_id: str, attempt: int, entries_written: int, lease_s: float
) -> LeaseStatus | None:
    """The lease of an attempt whose entries were all written before; None: it is fenced."""
    lease = renew_lease(session, job_id, attempt, lease_s=lease_s)
    stored_count = session.scalar(select(Job.entries_written).where(Job.id == job_id))
    if lease is not None and stored_count != entries_written:
        raise ValueError(
            f"job {job_id}: expected {entries_written} entries written, found {stored_count}"
        )
    return lease


def _job_progress(entries: Sequence[TelemetryEntry]) -> dict[str, Any]:
    """The columns of the job that change: by blocks, evaluations and a fallback to float32."""
    progress: dict[str, Any] = {}
    blocks = [entry for entry in entries if isinstance(entry, EncodedBlock)]
    if blocks:
        last = blocks[-1]
        progress |= {
            "step": last.end_step,
            "latest": json_safe(last.latest),
            "totals": json_safe(last.totals),
        }
    if (metrics := _last_metrics(entries)) is not None:
        progress["metrics"] = json_safe(metrics)
    if any(
        isinstance(entry, Event) and entry.type is EventType.FLOAT32_FALLBACK for entry in entries
    ):
        progress["resolved_policy"] = "float32"
    return progress


def _last_metrics(entries: Sequence[TelemetryEntry]) -> dict[str, float] | None:
    """The metrics of the last evaluation; None without one."""
    for entry in reversed(entries):
        if isinstance(entry, Event) and entry.type is EventType.EVALUATION:
            return metrics_of(entry.data)
    return None


def _table_and_values(entry: TelemetryEntry) -> tuple[type[Base], dict[str, Any]]:
    match entry:
        case EncodedBlock():
            steps = {"first_step": entry.first_step, "end_step": entry.end_step}
            return StepBlockRow, {**steps, **asdict(entry.stats), "payload": entry.payload}
        # Samples are too large for the event log.
        case Event(type=EventType.RANGES):
            return RangeRow, {"step": entry.step or 0, "data": json_safe(entry.data)}
        case Event():
            data = json_safe(entry.data)
            return EventRow, {"type": entry.type, "step": entry.step, "data": data}
        case StoredArtifact():
            return Artifact, vars(entry)
        case LogChunk():
            return LogRow, {"stream": entry.stream, "text": storable_text(entry.text)}

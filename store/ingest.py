"""What a running attempt tells, written in one transaction: fenced, in order, and only once."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ampcore.series import Event
from ampcore.series.block import Facts
from ampcore.series.jsonable import finite_json, storable
from store.leases import LEASE_S, Standing, advance, hold
from store.rows import write_down
from store.tables import Base, EventRow, Job, LogRow, StepBlockRow


@dataclass(frozen=True)
class EncodedBlock:
    """A block on its way into the database: what must be known of it, and the bytes."""

    first_step: int
    count: int
    facts: Facts
    payload: bytes
    latest: dict[str, Any]
    """Values of the block's last step, shown on the job."""
    totals: dict[str, Any] = field(default_factory=dict)
    """What the job's steps add up to with those of the block, shown on it, too."""

    @property
    def end_step(self) -> int:
        """The step after the last one."""
        return self.first_step + self.count


@dataclass(frozen=True)
class LogChunk:
    """A piece of what a trainer process printed, on `stdout` or `stderr`."""

    stream: str
    text: str


Entry = EncodedBlock | Event | LogChunk


def append(
    session: Session,
    job_id: str,
    attempt: int,
    entries: Sequence[Entry],
    *,
    told: int,
    lease_s: float = LEASE_S,
) -> Standing | None:
    """Write what an attempt tells, after the first `told` entries that it has told already.

    One UPDATE is the fence, the heartbeat, the order (every entry gets the job's next seq) and
    the guard against a second writing: whoever lost the answer to a commit may try again. None
    means that another attempt owns the job or that it has ended: nothing is written then.
    """
    count = len(entries)
    standing = advance(
        session,
        job_id,
        attempt,
        told=told,
        count=count,
        lease_s=lease_s,
        progress=_progress(entries),
    )
    if standing is None:
        return _standing_of_a_repeat(session, job_id, attempt, told + count, lease_s)
    rows: dict[type[Base], list[dict[str, Any]]] = {}
    for seq, entry in enumerate(entries, start=standing.seq - count + 1):
        table, values = _row(entry)
        whose = {"job_id": job_id, "attempt": attempt, "seq": seq}
        rows.setdefault(table, []).append({**whose, **values})
    for table, written in rows.items():
        write_down(session, table, *written)
    return standing


def _standing_of_a_repeat(
    session: Session, job_id: str, attempt: int, told: int, lease_s: float
) -> Standing | None:
    """The standing of an attempt whose entries are all written already; None: it is fenced."""
    standing = hold(session, job_id, attempt, lease_s=lease_s)
    written = session.scalar(select(Job.told).where(Job.id == job_id))
    if standing is not None and written != told:
        raise ValueError(f"job {job_id}: expected {told} entries written, found {written}")
    return standing


def _progress(entries: Sequence[Entry]) -> dict[str, Any]:
    """What the last block says of the job."""
    blocks = [entry for entry in entries if isinstance(entry, EncodedBlock)]
    if not blocks:
        return {}
    last = blocks[-1]
    return {
        "step": last.end_step,
        "latest": finite_json(last.latest),
        "totals": finite_json(last.totals),
    }


def _row(entry: Entry) -> tuple[type[Base], dict[str, Any]]:
    match entry:
        case EncodedBlock():
            place = {"first_step": entry.first_step, "end_step": entry.end_step}
            return StepBlockRow, {**place, **asdict(entry.facts), "payload": entry.payload}
        case Event():
            data = finite_json(entry.data)
            return EventRow, {"type": entry.type, "step": entry.step, "data": data}
        case LogChunk():
            return LogRow, {"stream": entry.stream, "text": storable(entry.text)}

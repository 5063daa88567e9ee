"""The steps of a job: append a block, fenced and in order, and read any range back."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ampcore.series import StepBlock
from ampcore.series.jsonable import finite_json
from store.jobs import Standing, hold
from store.tables import Job, StepBlockRow


@dataclass(frozen=True)
class EncodedBlock:
    """A block on its way into the database: what must be known of it, and the bytes."""

    first_step: int
    count: int
    skipped: int
    payload: bytes
    latest: dict[str, Any]
    """Values of the block's last step, shown on the job."""

    @property
    def end_step(self) -> int:
        """The step after the last one."""
        return self.first_step + self.count


def append(session: Session, job_id: str, attempt: int, block: EncodedBlock) -> Standing | None:
    """Write one block: lease, progress, order and payload in the caller's one transaction.

    None means that the fence has closed: another attempt owns the job.
    """
    latest = finite_json(block.latest)
    standing = hold(session, job_id, attempt, seq=Job.seq + 1, step=block.end_step, latest=latest)
    if standing is not None:
        session.add(
            StepBlockRow(
                job_id=job_id,
                attempt=attempt,
                first_step=block.first_step,
                end_step=block.end_step,
                skipped=block.skipped,
                seq=standing.seq,
                payload=block.payload,
            )
        )
        session.flush()
    return standing


@dataclass(frozen=True)
class Reading:
    """A range of steps, and whether more of them are stored behind it."""

    block: StepBlock
    more: bool


def read(session: Session, job_id: str, *, start: int, end: int | None, limit: int) -> Reading:
    """At most `limit` steps s with `start` ≤ s < `end`, of the newest attempt."""
    from ampcore.series.codec import decode  # loads pyarrow, which the worker does without

    newest = select(func.max(StepBlockRow.attempt)).where(StepBlockRow.job_id == job_id)
    rows = select(StepBlockRow.payload).where(
        StepBlockRow.job_id == job_id,
        StepBlockRow.attempt == newest.scalar_subquery(),
        StepBlockRow.end_step > start,
    )
    if end is not None:
        rows = rows.where(StepBlockRow.first_step < end)
    query = rows.order_by(StepBlockRow.first_step).execution_options(yield_per=64)
    blocks: list[StepBlock] = []
    found = 0
    with session.execute(query) as result:
        for (payload,) in result:
            block = decode(payload)
            wanted = block.between(start, block.end_step if end is None else end)
            kept = wanted.between(wanted.first_step, wanted.first_step + limit - found)
            blocks.append(kept)
            found += len(kept)
            if len(kept) < len(wanted):
                return Reading(StepBlock.concat(blocks), more=True)
    return Reading(StepBlock.concat(blocks), more=False)

"""The steps of a job: any range of them, each exactly once, whichever attempts made them."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ampcore.series import StepBlock
from store.tables import StepBlockRow


@dataclass(frozen=True)
class Reading:
    """A range of steps, and whether more of them are stored behind it."""

    block: StepBlock
    more: bool


@dataclass(frozen=True)
class Stretch:
    """Steps s with `start` ≤ s < `end`, as one attempt made them."""

    attempt: int
    start: int
    end: int


def read(
    session: Session,
    job_id: str,
    *,
    start: int,
    end: int | None,
    limit: int,
    attempt: int | None = None,
) -> Reading:
    """At most `limit` steps s with `start` ≤ s < `end`.

    Each comes from the newest attempt that reached it; with `attempt`, all come from that one,
    those that a later attempt has superseded included.
    """
    blocks: list[StepBlock] = []
    left = limit
    for stretch in _stretches(session, job_id, attempt):
        first, last = max(start, stretch.start), min(stretch.end, end or stretch.end)
        if (end is not None and end <= stretch.start) or first >= last:
            continue
        for block in _blocks(session, job_id, stretch.attempt, first, last):
            kept = block.between(block.first_step, block.first_step + left)
            blocks.append(kept)
            left -= len(kept)
            if len(kept) < len(block):
                return Reading(StepBlock.concat(blocks), more=True)
    return Reading(StepBlock.concat(blocks), more=False)


def skipped_before(session: Session, job_id: str, step: int) -> int:
    """How many of the steps before `step`, where an attempt resumed, were skipped."""
    skipped = 0
    for stretch in _stretches(session, job_id, None):
        # An attempt begins between two blocks of the one before it, where its checkpoint was.
        first, last = StepBlockRow.first_step, min(stretch.end, step)
        statement = select(func.sum(StepBlockRow.skipped)).where(
            StepBlockRow.job_id == job_id,
            StepBlockRow.attempt == stretch.attempt,
            first >= stretch.start,
            first < last,
        )
        skipped += session.scalar(statement) or 0
    return skipped


def visible(attempts: list[Stretch]) -> list[Stretch]:
    """What readers see of the attempts (in their order): for each step the newest one's.

    The stretches come in the order of their steps and do not overlap.
    """
    seen: list[Stretch] = []
    for newer in attempts:
        before = [
            Stretch(s.attempt, s.start, min(s.end, newer.start))
            for s in seen
            if s.start < newer.start
        ]
        behind = [
            Stretch(s.attempt, max(s.start, newer.end), s.end) for s in seen if s.end > newer.end
        ]
        seen = [*before, newer, *behind]
    return seen


def _stretches(session: Session, job_id: str, attempt: int | None) -> list[Stretch]:
    statement = (
        select(
            StepBlockRow.attempt,
            func.min(StepBlockRow.first_step),
            func.max(StepBlockRow.end_step),
        )
        .where(StepBlockRow.job_id == job_id)
        .group_by(StepBlockRow.attempt)
        .order_by(StepBlockRow.attempt)
    )
    if attempt is not None:
        statement = statement.where(StepBlockRow.attempt == attempt)
    return visible([Stretch(*row) for row in session.execute(statement)])


def _blocks(
    session: Session, job_id: str, attempt: int, start: int, end: int
) -> Iterator[StepBlock]:
    """The steps of an attempt in a range, block by block."""
    from ampcore.series.codec import decode  # loads pyarrow, which the worker does without

    query = (
        select(StepBlockRow.payload)
        .where(
            StepBlockRow.job_id == job_id,
            StepBlockRow.attempt == attempt,
            StepBlockRow.end_step > start,
            StepBlockRow.first_step < end,
        )
        .order_by(StepBlockRow.first_step)
        .execution_options(yield_per=64)
    )
    with session.execute(query) as result:
        for (payload,) in result:
            yield decode(payload).between(start, end)

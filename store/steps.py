"""The steps of a job: any range of them, each exactly once, whichever attempts made them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, bindparam, func, select
from sqlalchemy.orm import Session

from ampcore.series import StepBlock
from store.database import BINARY
from store.tables import StepBlockRow

FEW_STEPS: Final = 131_072
"""The blocks of so many are held in memory at one time."""

_ROWS: Final = StepBlockRow.__table__.c
# Made once: to put a statement together takes as long as to carry it out.
_JOB: Final = _ROWS.job_id == bindparam("job_id")


def _attempts() -> Select[Any]:
    """Where each attempt's steps begin and end, from its first and its last block alone."""
    first = select(func.min(_ROWS.attempt).label("attempt")).where(_JOB)
    found = first.cte(recursive=True)
    behind = select(func.min(_ROWS.attempt)).where(_JOB, _ROWS.attempt > found.c.attempt)
    found = found.union_all(
        select(behind.scalar_subquery().label("attempt")).where(found.c.attempt.is_not(None))
    )
    its_own = (_JOB, _ROWS.attempt == found.c.attempt)
    start = select(_ROWS.first_step).where(*its_own).order_by(_ROWS.first_step).limit(1)
    end = select(_ROWS.end_step).where(*its_own).order_by(_ROWS.first_step.desc()).limit(1)
    return (
        select(found.c.attempt, start.scalar_subquery(), end.scalar_subquery())
        .where(found.c.attempt.is_not(None))
        .order_by(found.c.attempt)
    )


_ATTEMPTS: Final = _attempts()
_OWN: Final = (_JOB, _ROWS.attempt == bindparam("attempt"))
_BEGIN: Final = select(func.max(_ROWS.first_step)).where(
    *_OWN, _ROWS.first_step <= bindparam("start")
)
_BLOCKS: Final = (
    select(_ROWS.payload)
    .where(
        *_OWN,
        _ROWS.first_step >= func.coalesce(_BEGIN.scalar_subquery(), 0),
        _ROWS.first_step < bindparam("end"),
        _ROWS.end_step > bindparam("start"),
    )
    .order_by(_ROWS.first_step)
    .execution_options(**{BINARY: True})
)


@dataclass(frozen=True)
class Reading:
    """Consecutive steps, and whether more of them are stored behind."""

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
    columns: Sequence[str] | None = None,
) -> Reading:
    """At most `limit` steps s with `start` ≤ s < `end`; fewer, too, where some are missing.

    Each comes from the newest attempt that reached it; with `attempt`, all come from that one,
    those that a later attempt has superseded included. Of `columns`, those that there are.
    """
    keep = None if columns is None else set(columns).__contains__
    blocks: list[StepBlock] = []
    left = limit
    for part in clipped(stretches(session, job_id, attempt), start, end):
        for block in blocks_of(session, job_id, part, keep):
            if blocks and block.first_step != blocks[-1].end_step:
                return Reading(StepBlock.concat(blocks), more=True)
            kept = block.between(block.first_step, block.first_step + left)
            blocks.append(kept)
            left -= len(kept)
            if len(kept) < len(block):
                return Reading(StepBlock.concat(blocks), more=True)
    return Reading(StepBlock.concat(blocks), more=False)


def visible(attempts: Sequence[Stretch]) -> list[Stretch]:
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


def clipped(parts: Sequence[Stretch], start: int, end: int | None) -> list[Stretch]:
    """What of the stretches lies in a range."""
    cut = (
        Stretch(
            part.attempt, max(part.start, start), part.end if end is None else min(part.end, end)
        )
        for part in parts
    )
    return [part for part in cut if part.start < part.end]


def stretches(session: Session, job_id: str, attempt: int | None = None) -> list[Stretch]:
    """What readers see of a job's attempts, or of one of them."""
    rows = session.connection().execute(_ATTEMPTS, {"job_id": job_id})
    return visible([Stretch(*row) for row in rows if attempt in (None, row.attempt)])


def columns(session: Session, job_id: str, seen: Sequence[Stretch]) -> list[str]:
    """The names of what is told of the steps in some stretches, from the ends of each."""
    ends = [
        Stretch(stretch.attempt, step, step + 1)
        for stretch in seen
        for step in sorted({stretch.start, stretch.end - 1})
    ]
    blocks = (block for end in ends for block in blocks_of(session, job_id, end))
    return list(dict.fromkeys(name for block in blocks for name in block.names))


def blocks_of(
    session: Session, job_id: str, stretch: Stretch, keep: Callable[[str], bool] | None = None
) -> Iterator[StepBlock]:
    """The steps of a stretch, block by block; without the columns that are not to be kept."""
    from ampcore.series.codec import decode, every  # loads pyarrow, which the worker does without

    asked = {"job_id": job_id, **vars(stretch)}
    # To read as one goes takes PostgreSQL three more messages.
    options = {"yield_per": 16} if stretch.end - stretch.start > FEW_STEPS else {}
    with session.connection().execute(_BLOCKS, asked, execution_options=options) as result:
        for (payload,) in result:
            yield decode(payload, keep or every).between(stretch.start, stretch.end)

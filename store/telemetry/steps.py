"""Read the steps of a job: any range, each step exactly once, over all attempts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sqlalchemy import Select, bindparam, func, select
from sqlalchemy.orm import Session

from ampspec.jobs import Source
from ampspec.telemetry import StepBlock
from store.cancellation import checked
from store.database import BINARY_RESULTS
from store.tables import Job, StepBlockRow
from store.telemetry.payloads import decoded

MAX_COLUMNS: Final = 512
"""Columns of a read that names none. More than a run may have: older versions stored any number."""
STREAM_ABOVE_STEPS: Final = 131_072
"""Above this many steps, blocks are streamed from the database instead of fetched at once."""

_ROWS: Final = StepBlockRow.__table__.c
# Built once: building a statement takes as long as executing it.
_JOB: Final = _ROWS.job_id == bindparam("job_id")


def _attempt_ranges() -> Select[Any]:
    """The first and end step of each attempt, read from its first and last block only."""
    first = select(func.min(_ROWS.attempt).label("attempt")).where(_JOB)
    attempt_numbers = first.cte(recursive=True)
    later = select(func.min(_ROWS.attempt)).where(_JOB, _ROWS.attempt > attempt_numbers.c.attempt)
    attempt_numbers = attempt_numbers.union_all(
        select(later.scalar_subquery().label("attempt")).where(
            attempt_numbers.c.attempt.is_not(None)
        )
    )
    its_own = (_JOB, _ROWS.attempt == attempt_numbers.c.attempt)
    start = select(_ROWS.first_step).where(*its_own).order_by(_ROWS.first_step).limit(1)
    end = select(_ROWS.end_step).where(*its_own).order_by(_ROWS.first_step.desc()).limit(1)
    is_tracked = select(Job.source == Source.TRACKED).where(Job.id == bindparam("job_id"))
    return (
        select(
            attempt_numbers.c.attempt,
            start.scalar_subquery(),
            end.scalar_subquery(),
            is_tracked.scalar_subquery(),
        )
        .where(attempt_numbers.c.attempt.is_not(None))
        .order_by(attempt_numbers.c.attempt)
    )


_ATTEMPTS: Final = _attempt_ranges()
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
    .execution_options(**{BINARY_RESULTS: True})
)


_BLOCK_BEFORE: Final = (
    select(_ROWS.first_step, _ROWS.end_step, _ROWS.payload)
    .where(*_OWN, _ROWS.first_step < bindparam("start"))
    .order_by(_ROWS.first_step.desc())
    .limit(1)
    .execution_options(**{BINARY_RESULTS: True})
)


@dataclass(frozen=True)
class StepsPage:
    """Steps in order, and whether more are stored after them."""

    block: StepBlock
    more: bool


@dataclass(frozen=True)
class AttemptSteps:
    """The steps s with `start` ≤ s < `end` of one attempt."""

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
) -> StepsPage:
    """At most `limit` stored steps s with `start` ≤ s < `end`, in order.

    Each step comes from the newest attempt that reached it; with `attempt`, all come from that
    one, including steps that a later attempt repeated. Unknown `columns` are left out. Without
    `columns`, the first MAX_COLUMNS are read.
    """
    keep = FirstColumns() if columns is None else set(columns).__contains__
    blocks: list[StepBlock] = []
    remaining_steps = limit
    for part in clip(visible_ranges(session, job_id, attempt), start, end):
        for block in read_blocks(session, job_id, part, keep):
            head = block.head(remaining_steps)
            blocks.append(head)
            remaining_steps -= len(head)
            if len(head) < len(block):
                return StepsPage(StepBlock.concat(blocks), more=True)
    return StepsPage(StepBlock.concat(blocks), more=False)


class FirstColumns:
    """Selects the columns that it is asked about first: reading any job has a limit."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __call__(self, name: str) -> bool:
        """Whether the column is one of the first MAX_COLUMNS."""
        if name not in self._names and len(self._names) < MAX_COLUMNS:
            self._names.add(name)
        return name in self._names


def newest_ranges(
    attempts: Sequence[AttemptSteps], *, ends_with_newest: bool = False
) -> list[AttemptSteps]:
    """The visible ranges of the attempts (given in order): the newest attempt for each step.

    The result is ordered by step and does not overlap.

    Args:
        attempts: The ranges of all attempts.
        ends_with_newest: Leave out what earlier attempts have after the end of a later one: a
            program that went on from an earlier step may have ended before, or train otherwise.
    """
    ranges: list[AttemptSteps] = []
    for newer in attempts:
        earlier_ranges = [
            AttemptSteps(s.attempt, s.start, min(s.end, newer.start))
            for s in ranges
            if s.start < newer.start
        ]
        later = [
            AttemptSteps(s.attempt, max(s.start, newer.end), s.end)
            for s in ranges
            if s.end > newer.end and not ends_with_newest
        ]
        ranges = [*earlier_ranges, newer, *later]
    return ranges


def clip(parts: Sequence[AttemptSteps], start: int, end: int | None) -> list[AttemptSteps]:
    """The parts of the ranges with steps s, `start` ≤ s < `end`."""
    cut = (
        AttemptSteps(
            part.attempt, max(part.start, start), part.end if end is None else min(part.end, end)
        )
        for part in parts
    )
    return [part for part in cut if part.start < part.end]


def visible_ranges(session: Session, job_id: str, attempt: int | None = None) -> list[AttemptSteps]:
    """The visible ranges of a job's attempts, or of one of them."""
    rows = session.connection().execute(_ATTEMPTS, {"job_id": job_id}).all()
    return newest_ranges(
        [AttemptSteps(*row[:3]) for row in rows if attempt in (None, row.attempt)],
        ends_with_newest=bool(rows and rows[0][3]),
    )


def column_names(session: Session, job_id: str, ranges: Sequence[AttemptSteps]) -> list[str]:
    """The names of the columns in the ranges, from the first and last block of each."""
    ends = [
        AttemptSteps(attempt_range.attempt, step, step + 1)
        for attempt_range in ranges
        for step in sorted({attempt_range.start, attempt_range.end - 1})
    ]
    blocks = (block for end in ends for block in read_blocks(session, job_id, end))
    return list(dict.fromkeys(name for block in blocks for name in block.names))


def step_before(session: Session, job_id: str, attempt: int, start: int) -> int | None:
    """The last stored step of an attempt before `start`; None without one."""
    from ampspec.telemetry.steps.codec import decode

    parameters = {"job_id": job_id, "attempt": attempt, "start": start}
    row = session.connection().execute(_BLOCK_BEFORE, parameters).one_or_none()
    if row is None or row.end_step <= start:
        return None if row is None else row.end_step - 1
    read_numbers = partial(decode, keep=lambda _: False)
    for block in decoded([row.payload], read_numbers, job_id, attempt):
        return int(block["step"][block["step"] < start][-1])
    return None


def read_blocks(
    session: Session,
    job_id: str,
    attempt_range: AttemptSteps,
    keep: Callable[[str], bool] | None = None,
) -> Iterator[StepBlock]:
    """The steps of a range, block by block, with the columns that `keep` selects.

    Each step comes once: of steps that several blocks have, those of the first block are read.
    Raises Cancelled.
    """
    from ampspec.telemetry.steps.codec import decode, keep_all

    parameters = {"job_id": job_id, **vars(attempt_range)}
    # A server-side cursor costs PostgreSQL three more messages.
    options = (
        {"yield_per": 16} if attempt_range.end - attempt_range.start > STREAM_ABOVE_STEPS else {}
    )
    attempt, next_step = attempt_range.attempt, attempt_range.start
    read_columns = partial(decode, keep=keep or keep_all)
    with session.connection().execute(_BLOCKS, parameters, execution_options=options) as result:
        for block in decoded(checked(result.scalars()), read_columns, job_id, attempt):
            if len(block := block.between(next_step, attempt_range.end)):
                next_step = block.end_step
                yield block

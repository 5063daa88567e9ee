"""The story of a job: its steps, events and printed text in the order in which they were told."""

from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from ampcore.series import StepBlock
from store.database import BINARY
from store.tables import EventRow, LogRow, StepBlockRow

ENTRIES: Final = 64
BLOCKS: Final = 4
"""So many rows are read at one time; merged blocks hold thousands of steps."""
STEPS: Final = 1000
"""Merged blocks are told in pieces of about so many; a block is one piece, however long."""


class Kind(StrEnum):
    """What a story consists of."""

    STEPS = "steps"
    EVENTS = "events"
    LOGS = "logs"


@dataclass(frozen=True)
class StepsTold:
    """Steps of one attempt; `seq` is that of the last block among them."""

    seq: int
    attempt: int
    block: StepBlock


Entry = StepsTold | EventRow | LogRow

_ROWS: Final = StepBlockRow.__table__.c
_BLOCKS: Final = (
    select(_ROWS.seq, _ROWS.attempt, _ROWS.first_step, _ROWS.marks, _ROWS.payload)
    .where(_ROWS.job_id == bindparam("job_id"), _ROWS.seq > bindparam("after"))
    .order_by(_ROWS.seq)
    .limit(bindparam("most"))
    .execution_options(**{BINARY: True})
)


def read(
    session: Session,
    job_id: str,
    *,
    after: int,
    until: int,
    kinds: Collection[Kind] = tuple(Kind),
    columns: Collection[str] | None = None,
) -> tuple[list[Entry], int]:
    """Some entries of these kinds with a seq above `after`, in order.

    Answers until which seq they tell all there is; `until`, the job's own, where nothing is left.
    Each goes by its seq once, so that who goes on behind it misses nothing and hears nothing twice.
    """
    events = _rows(session, EventRow, job_id, after) if Kind.EVENTS in kinds else []
    logs = _rows(session, LogRow, job_id, after) if Kind.LOGS in kinds else []
    blocks: Sequence[Any] = []
    if Kind.STEPS in kinds:
        asked = {"job_id": job_id, "after": after, "most": BLOCKS}
        blocks = session.connection().execute(_BLOCKS, asked).all()
    for rows, most in ((events, ENTRIES), (logs, ENTRIES), (blocks, BLOCKS)):
        if len(rows) == most:
            until = min(until, rows[-1].seq)
    others: list[Entry] = [row for row in (*events, *logs) if row.seq <= until]
    cuts = sorted(row.seq for row in others)
    keep = None if columns is None else {*columns, "skipped"}.__contains__
    told = [piece for row in blocks for piece in _pieces(row, after, until, cuts, keep)]
    return sorted([*others, *told], key=lambda entry: entry.seq), max(until, after)


def _rows(session: Session, table: Any, job_id: str, after: int) -> Sequence[Any]:
    query = select(table).where(table.job_id == job_id, table.seq > after)
    return session.scalars(query.order_by(table.seq).limit(ENTRIES)).all()


def _pieces(
    row: Any, after: int, until: int, cuts: Sequence[int], keep: Callable[[str], bool] | None
) -> Iterator[StepsTold]:
    """The steps of a stored block that came in this part of the story."""
    from ampcore.series.codec import decode, every  # loads pyarrow, which the worker does without
    from ampcore.series.marks import unpack_marks

    if row.marks is None:
        if row.seq <= until:
            yield StepsTold(row.seq, row.attempt, decode(row.payload, keep or every))
        return
    marks = unpack_marks(row.marks)
    if marks["seq"][0] > until:
        return
    block = decode(row.payload, keep or every)
    start = row.first_step
    for index, mark in enumerate(marks):
        seq, end = int(mark["seq"]), int(mark["end_step"])
        if seq <= after:
            start = end
            continue
        if seq > until:
            return
        last = index + 1 == len(marks) or int(marks[index + 1]["seq"]) > until
        # What was told between two blocks stays between them.
        apart = last or bisect(cuts, seq) < bisect(cuts, int(marks[index + 1]["seq"]))
        if apart or end - start >= STEPS:
            yield StepsTold(seq, row.attempt, block.between(start, end))
            start = end

"""The event stream of a job: its steps, events and log text in the order of `seq`."""

from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from ampspec.telemetry import StepBlock
from store.database import BINARY_RESULTS
from store.tables import EventRow, LogRow, StepBlockRow
from store.telemetry.payloads import decoded

ROWS_PER_READ: Final = 64
BLOCKS_PER_READ: Final = 4
"""Rows, and step blocks, per read; merged blocks hold thousands of steps."""
STEPS_PER_EVENT: Final = 1000
"""Merged blocks are split into events of about this many steps; original blocks are not."""


class StreamKind(StrEnum):
    """The kinds of entries in an event stream."""

    STEPS = "steps"
    EVENTS = "events"
    LOGS = "logs"


@dataclass(frozen=True)
class StepsEntry:
    """Steps of one attempt; `seq` is the seq of their last block."""

    seq: int
    attempt: int
    block: StepBlock


StreamEntry = StepsEntry | EventRow | LogRow

_ROWS: Final = StepBlockRow.__table__.c
_BLOCKS: Final = (
    select(_ROWS.seq, _ROWS.attempt, _ROWS.first_step, _ROWS.merge_index, _ROWS.payload)
    .where(_ROWS.job_id == bindparam("job_id"), _ROWS.seq > bindparam("after_seq"))
    .order_by(_ROWS.seq)
    .limit(bindparam("limit"))
    .execution_options(**{BINARY_RESULTS: True})
)


def read(
    session: Session,
    job_id: str,
    *,
    after_seq: int,
    until: int,
    kinds: Collection[StreamKind] = tuple(StreamKind),
    columns: Collection[str] | None = None,
) -> tuple[list[StreamEntry], int]:
    """Read the next entries of these kinds with a seq above `after_seq`, in order.

    Returns the entries, and the seq up to which they are complete: `until`, the job's own, if
    nothing is left. A reader that continues after that seq gets every entry exactly once.
    """
    events = _next_rows(session, EventRow, job_id, after_seq) if StreamKind.EVENTS in kinds else []
    logs = _next_rows(session, LogRow, job_id, after_seq) if StreamKind.LOGS in kinds else []
    blocks: Sequence[Any] = []
    if StreamKind.STEPS in kinds:
        parameters = {"job_id": job_id, "after_seq": after_seq, "limit": BLOCKS_PER_READ}
        blocks = session.connection().execute(_BLOCKS, parameters).all()
    for rows, limit in ((events, ROWS_PER_READ), (logs, ROWS_PER_READ), (blocks, BLOCKS_PER_READ)):
        if len(rows) == limit:
            until = min(until, rows[-1].seq)
    other_entries: list[StreamEntry] = [row for row in (*events, *logs) if row.seq <= until]
    cuts = sorted(row.seq for row in other_entries)
    keep = None if columns is None else {*columns, "skipped"}.__contains__
    split = partial(_steps_events, after_seq=after_seq, until=until, cuts=cuts, keep=keep)
    steps = [event for row in blocks for event in _readable(row, split, job_id)]
    return sorted([*other_entries, *steps], key=lambda entry: entry.seq), max(until, after_seq)


def _next_rows(session: Session, table: Any, job_id: str, after_seq: int) -> Sequence[Any]:
    query = select(table).where(table.job_id == job_id, table.seq > after_seq)
    return session.scalars(query.order_by(table.seq).limit(ROWS_PER_READ)).all()


def _readable(
    row: Any, split: Callable[[Any], Iterator[StepsEntry]], job_id: str
) -> Sequence[StepsEntry]:
    """The steps of a stored block; none if it cannot be read."""
    for events in decoded([row], lambda row: list(split(row)), job_id, row.attempt):
        return events
    return ()


def _steps_events(
    row: Any,
    *,
    after_seq: int,
    until: int,
    cuts: Sequence[int],
    keep: Callable[[str], bool] | None,
) -> Iterator[StepsEntry]:
    """The steps of a stored block with `after_seq` < seq ≤ `until`."""
    from ampspec.telemetry.steps.codec import decode, keep_all
    from ampspec.telemetry.steps.merge_index import decode_merge_index

    if row.merge_index is None:
        if row.seq <= until:
            yield StepsEntry(row.seq, row.attempt, decode(row.payload, keep or keep_all))
        return
    originals = decode_merge_index(row.merge_index)
    if originals["seq"][0] > until:
        return
    block = decode(row.payload, keep or keep_all)
    start = row.first_step
    for index, original in enumerate(originals):
        seq, end = int(original["seq"]), int(original["end_step"])
        if seq <= after_seq:
            start = end
            continue
        if seq > until:
            return
        last = index + 1 == len(originals) or int(originals[index + 1]["seq"]) > until
        # An event between two blocks must stay between them.
        apart = last or bisect(cuts, seq) < bisect(cuts, int(originals[index + 1]["seq"]))
        if apart or end - start >= STEPS_PER_EVENT:
            yield StepsEntry(seq, row.attempt, block.between(start, end))
            start = end

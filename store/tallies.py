"""What the steps of a job add up to before one of them, where an attempt goes on."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ampcore.series.block import Facts
from ampcore.series.marks import facts_of, unpack_marks
from ampcore.series.tally import Tally
from store.steps import stretches
from store.tables import StepBlockRow


def before(session: Session, job_id: str, step: int) -> Tally:
    """That of the steps before `step`; the others will be done again."""
    tally = Tally()
    seen = stretches(session, job_id)
    for attempt, first, end, facts in _blocks(session, job_id):
        # An attempt begins between two blocks of the one before it, where its checkpoint was.
        if any(s.attempt == attempt and s.start <= first < min(s.end, step) for s in seen):
            tally.add(end - first, facts)
        else:
            tally.repeat(end - first, facts)
    return tally


def _blocks(session: Session, job_id: str) -> Iterator[tuple[int, int, int, Facts]]:
    """The blocks of every attempt as they came: their attempt, first step, end step and facts."""
    row = StepBlockRow
    columns = (row.skipped, row.examples, row.duration_s, row.skipped_s, row.best_loss)
    query = (
        select(row.attempt, row.first_step, row.end_step, row.marks, *columns)
        .where(row.job_id == job_id)
        .order_by(row.attempt, row.first_step)
    )
    rows: Any = session.execute(query)
    for attempt, first, end, marks, *facts in rows:
        if marks is None:
            yield attempt, first, end, Facts(*facts)
            continue
        begin = first
        for mark in unpack_marks(marks):
            yield attempt, begin, int(mark["end_step"]), facts_of(mark)
            begin = int(mark["end_step"])

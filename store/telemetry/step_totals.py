"""Totals over the steps of a job before the step at which an attempt resumes."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ampspec.telemetry.steps.block import BlockStats
from ampspec.telemetry.steps.merge_index import decode_merge_index, entry_stats
from ampspec.telemetry.steps.summary import StepSummary
from store.tables import StepBlockRow
from store.telemetry.steps import visible_ranges


def before(session: Session, job_id: str, step: int) -> StepSummary:
    """The totals over the steps before `step`; later ones will be trained again."""
    summary = StepSummary()
    ranges = visible_ranges(session, job_id)
    for attempt, first, end, stats in _blocks_with_totals(session, job_id):
        # An attempt starts at a checkpoint, which lies between two blocks of the attempt before it.
        if any(s.attempt == attempt and s.start <= first < min(s.end, step) for s in ranges):
            summary.add(end - first, stats)
        else:
            summary.add_repeated(end - first, stats)
    return summary


def _blocks_with_totals(
    session: Session, job_id: str
) -> Iterator[tuple[int, int, int, BlockStats]]:
    """The original blocks of every attempt: attempt, first step, end step and statistics."""
    row = StepBlockRow
    columns = (row.skipped, row.examples, row.duration_s, row.skipped_s, row.best_loss)
    query = (
        select(row.attempt, row.first_step, row.end_step, row.merge_index, *columns)
        .where(row.job_id == job_id)
        .order_by(row.attempt, row.first_step)
    )
    rows: Any = session.execute(query)
    for attempt, first, end, encoded_index, *stats in rows:
        if encoded_index is None:
            yield attempt, first, end, BlockStats(*stats)
            continue
        begin = first
        for entry in decode_merge_index(encoded_index):
            yield attempt, begin, int(entry["end_step"]), entry_stats(entry)
            begin = int(entry["end_step"])

"""Attempts whose steps wait to be merged."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from ampcore.spec import ACTIVE
from store.tables import Job, StepBlockRow

SEGMENT: Final = 16_384
"""Blocks are merged that begin at steps s with the same `s // SEGMENT`."""
ENOUGH: Final = 64
"""Blocks of a running attempt that are worth merging."""


@dataclass(frozen=True)
class Loose:
    """An attempt with blocks that are to be merged."""

    job_id: str
    attempt: int


def waiting(session: Session, most: int) -> list[Loose]:
    """Attempts with blocks to merge: with many, or with any where no more will come."""
    row = StepBlockRow
    steps = func.sum(row.end_step - row.first_step)
    over = or_(Job.state.not_in(ACTIVE), Job.attempt != row.attempt)
    query = (
        select(row.job_id, row.attempt)
        .join(Job, Job.id == row.job_id)
        .where(row.marks.is_(None))
        .group_by(row.job_id, row.attempt, Job.state, Job.attempt)
        .having(or_(over, func.count() >= ENOUGH, steps >= SEGMENT))
        .limit(most)
    )
    return [Loose(*found) for found in session.execute(query)]

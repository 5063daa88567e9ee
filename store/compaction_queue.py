"""Find attempts with step blocks to merge."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from ampcore.spec import ACTIVE
from store.tables import Job, StepBlockRow

SEGMENT_STEPS: Final = 16_384
"""Blocks whose first steps s have the same `s // SEGMENT_STEPS` are merged into one."""
MIN_BLOCKS: Final = 64
"""A running attempt is merged once it has this many unmerged blocks."""


@dataclass(frozen=True)
class UncompactedAttempt:
    """An attempt with step blocks to merge."""

    job_id: str
    attempt: int


def uncompacted_attempts(session: Session, most: int) -> list[UncompactedAttempt]:
    """Attempts to merge: those with many unmerged blocks, and ended ones with any."""
    row = StepBlockRow
    steps = func.sum(row.end_step - row.first_step)
    over = or_(Job.state.not_in(ACTIVE), Job.attempt != row.attempt)
    query = (
        select(row.job_id, row.attempt)
        .join(Job, Job.id == row.job_id)
        .where(row.merge_index.is_(None))
        .group_by(row.job_id, row.attempt, Job.state, Job.attempt)
        .having(or_(over, func.count() >= MIN_BLOCKS, steps >= SEGMENT_STEPS))
        .limit(most)
    )
    return [UncompactedAttempt(*found) for found in session.execute(query)]

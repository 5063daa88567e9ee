"""Find attempts with step blocks to merge."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from ampspec.jobs import ACTIVE
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


def uncompacted_attempts(session: Session, limit: int) -> list[UncompactedAttempt]:
    """Attempts to merge: those with many unmerged blocks, and ended ones with any."""
    row = StepBlockRow
    # First the blocks of each attempt are added up: many blocks belong to few attempts.
    unmerged_blocks = (
        select(
            row.job_id,
            row.attempt,
            func.count().label("blocks"),
            func.sum(row.end_step - row.first_step).label("steps"),
        )
        .where(row.merge_index.is_(None))
        .group_by(row.job_id, row.attempt)
        .subquery()
        .c
    )
    has_ended = or_(Job.state.not_in(ACTIVE), Job.attempt != unmerged_blocks.attempt)
    is_due = or_(
        unmerged_blocks.blocks >= MIN_BLOCKS, unmerged_blocks.steps >= SEGMENT_STEPS, has_ended
    )
    query = select(unmerged_blocks.job_id, unmerged_blocks.attempt).join(
        Job, Job.id == unmerged_blocks.job_id
    )
    return [UncompactedAttempt(*keys) for keys in session.execute(query.where(is_due).limit(limit))]

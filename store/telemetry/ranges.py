"""Read the range samples of a job: each sampled step once, from the latest attempt."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from store.tables import RangeRow


def steps(
    session: Session, job_id: str, *, start: int = 0, end: int | None = None
) -> Sequence[int]:
    """The sampled steps s with `start` ≤ s < `end`, in order."""
    statement = select(RangeRow.step).where(RangeRow.job_id == job_id, RangeRow.step >= start)
    if end is not None:
        statement = statement.where(RangeRow.step < end)
    return session.scalars(statement.distinct().order_by(RangeRow.step)).all()


def read(
    session: Session, job_id: str, steps: Sequence[int]
) -> Sequence[tuple[int, dict[str, Any]]]:
    """The samples of these steps, in order, as JSON values."""
    later = aliased(RangeRow)
    replacing = select(1).where(
        later.job_id == RangeRow.job_id, later.step == RangeRow.step, later.seq > RangeRow.seq
    )
    statement = (
        select(RangeRow.step, RangeRow.data)
        .where(RangeRow.job_id == job_id, RangeRow.step.in_(steps), ~replacing.exists())
        .order_by(RangeRow.step)
    )
    return [(step, data) for step, data in session.execute(statement)]

"""What a job's trainers printed, read on from any place."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.tables import LogRow


def read(
    session: Session, job_id: str, *, after: int, limit: int, attempt: int | None = None
) -> Sequence[LogRow]:
    """At most `limit` pieces with a seq above `after`, in order; of one attempt, if it is named."""
    statement = select(LogRow).where(LogRow.job_id == job_id, LogRow.seq > after)
    if attempt is not None:
        statement = statement.where(LogRow.attempt == attempt)
    return session.scalars(statement.order_by(LogRow.seq).limit(limit)).all()

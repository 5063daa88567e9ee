"""The ledger of a job, read on from any place."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.tables import EventRow


def read(session: Session, job_id: str, *, after: int, limit: int) -> Sequence[EventRow]:
    """At most `limit` events with a seq above `after`, in order."""
    statement = select(EventRow).where(EventRow.job_id == job_id, EventRow.seq > after)
    return session.scalars(statement.order_by(EventRow.seq).limit(limit)).all()

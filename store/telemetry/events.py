"""Read the event log of a job, forwards or backwards from any seq."""

from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.rows import page_by_seq
from store.tables import EventRow


def read(
    session: Session,
    job_id: str,
    *,
    limit: int,
    after: int = 0,
    before: int | None = None,
    types: Collection[str] = (),
    start: int | None = None,
    end: int | None = None,
) -> Sequence[EventRow]:
    """At most `limit` events with a seq above `after`, in order: the first, or the last `before`.

    Only those of `types`, and of steps s with `start` ≤ s < `end`, if given.
    """
    statement = select(EventRow).where(EventRow.job_id == job_id, EventRow.seq > after)
    if types:
        statement = statement.where(EventRow.type.in_(types))
    if start is not None:
        statement = statement.where(EventRow.step >= start)
    if end is not None:
        statement = statement.where(EventRow.step < end)
    return page_by_seq(session, statement, EventRow.seq, before=before, limit=limit)

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
    after_seq: int = 0,
    before_seq: int | None = None,
    types: Collection[str] = (),
    start: int | None = None,
    end: int | None = None,
) -> Sequence[EventRow]:
    """At most `limit` events with seq > `after_seq`, in order.

    The first ones, or with `before_seq` the last ones below it.

    Only those of `types`, and of steps s with `start` ≤ s < `end`, if given.
    """
    statement = select(EventRow).where(EventRow.job_id == job_id, EventRow.seq > after_seq)
    if types:
        statement = statement.where(EventRow.type.in_(types))
    if start is not None:
        statement = statement.where(EventRow.step >= start)
    if end is not None:
        statement = statement.where(EventRow.step < end)
    return page_by_seq(session, statement, EventRow.seq, before_seq=before_seq, limit=limit)

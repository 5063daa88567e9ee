"""The ledger of a job, read on from any place, or back from it."""

from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.ordered import in_order
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
    """At most `limit` events with a seq above `after`, in order: the first, or those last `before`.

    `types` narrows them down to some types, `start` and `end` to those of the steps between.
    """
    statement = select(EventRow).where(EventRow.job_id == job_id, EventRow.seq > after)
    if types:
        statement = statement.where(EventRow.type.in_(types))
    if start is not None:
        statement = statement.where(EventRow.step >= start)
    if end is not None:
        statement = statement.where(EventRow.step < end)
    return in_order(session, statement, EventRow.seq, before=before, limit=limit)

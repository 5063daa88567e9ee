"""What a job's trainers printed, read on from any place, or back from it."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.ordered import in_order
from store.tables import LogRow


def read(
    session: Session,
    job_id: str,
    *,
    limit: int,
    after: int = 0,
    before: int | None = None,
    attempt: int | None = None,
) -> Sequence[LogRow]:
    """At most `limit` pieces with a seq above `after`, in order: the first, or those last `before`.

    They are those of one attempt, if it is named.
    """
    statement = select(LogRow).where(LogRow.job_id == job_id, LogRow.seq > after)
    if attempt is not None:
        statement = statement.where(LogRow.attempt == attempt)
    return in_order(session, statement, LogRow.seq, before=before, limit=limit)

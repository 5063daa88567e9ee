"""Read the log of a job's trainers, forwards or backwards from any seq."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.rows import page_by_seq
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
    """At most `limit` chunks with a seq above `after`, in order: the first, or the last `before`.

    Only those of one attempt, if given.
    """
    statement = select(LogRow).where(LogRow.job_id == job_id, LogRow.seq > after)
    if attempt is not None:
        statement = statement.where(LogRow.attempt == attempt)
    return page_by_seq(session, statement, LogRow.seq, before=before, limit=limit)

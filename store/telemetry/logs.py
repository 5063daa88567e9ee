"""Read the log of a job's trainers, forwards or backwards from any seq; add what ranks print."""

from collections.abc import Sequence

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from ampspec.jobs import ACTIVE
from ampspec.telemetry.json_values import storable_text
from store.rows import insert_rows, page_by_seq
from store.tables import Job, LogRow
from store.telemetry.ingest import LogChunk


def read(
    session: Session,
    job_id: str,
    *,
    limit: int,
    after_seq: int = 0,
    before_seq: int | None = None,
    attempt: int | None = None,
) -> Sequence[LogRow]:
    """At most `limit` chunks with seq > `after_seq`, in order.

    The first ones, or with `before_seq` the last ones below it.

    Only those of one attempt, if given.
    """
    statement = select(LogRow).where(LogRow.job_id == job_id, LogRow.seq > after_seq)
    if attempt is not None:
        statement = statement.where(LogRow.attempt == attempt)
    return page_by_seq(session, statement, LogRow.seq, before_seq=before_seq, limit=limit)


def append(session: Session, job_id: str, attempt: int, chunks: Sequence[LogChunk]) -> bool:
    """Add the output of ranks of an attempt; False, and nothing, if the attempt has ended.

    It does not extend the job's lease, which belongs to the worker of rank 0.
    """
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.attempt == attempt, Job.state.in_(ACTIVE))
        .values(seq=Job.seq + len(chunks))
        .returning(Job.seq)
        .execution_options(synchronize_session=False)
    )
    last_seq = session.scalars(statement).one_or_none()
    if last_seq is None:
        return False
    whose = {"job_id": job_id, "attempt": attempt}
    rows = [
        {**whose, "seq": seq, "stream": chunk.stream, "text": storable_text(chunk.text)}
        for seq, chunk in enumerate(chunks, start=last_seq - len(chunks) + 1)
    ]
    insert_rows(session, LogRow, *rows)
    return True

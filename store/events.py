"""The ledger of a job: append an event, fenced and in order, and read on from any place."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from ampcore.series import Event
from ampcore.series.jsonable import finite_json
from store.jobs import Standing, hold
from store.tables import EventRow, Job


def append(session: Session, job_id: str, attempt: int, event: Event) -> Standing | None:
    """Write one event of a running attempt; None when another attempt owns the job."""
    standing = hold(session, job_id, attempt, seq=Job.seq + 1)
    if standing is not None:
        session.add(
            EventRow(
                job_id=job_id,
                seq=standing.seq,
                attempt=attempt,
                type=event.type,
                step=event.step,
                data=finite_json(event.data),
            )
        )
        session.flush()
    return standing


def read(session: Session, job_id: str, *, after: int, limit: int) -> Sequence[EventRow]:
    """At most `limit` events with a seq above `after`, in order."""
    statement = select(EventRow).where(EventRow.job_id == job_id, EventRow.seq > after)
    return session.scalars(statement.order_by(EventRow.seq).limit(limit)).all()

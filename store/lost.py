"""What becomes of the jobs of workers that are not heard of any more."""

from typing import Final

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from ampcore.spec import ACTIVE, Reason, State
from store.attempts import fail
from store.changes import leave
from store.clock import after, now
from store.leases import SELF_FENCE_S
from store.tables import Job

LOST: Final = "lost"
"""The outcome of an attempt."""


def expire(session: Session) -> list[Job]:
    """Take the jobs away from workers that have not been heard of for the length of a lease."""
    # A process that was to stop may live on for as long as a worker that is cut off lets it.
    gone = Job.lease_expires_at < after(-SELF_FENCE_S)
    message = "The worker that ran it was not heard of any more."
    return _lose(session, message, Job.lease_expires_at < now(), stopping=gone)


def lose_all(session: Session) -> list[Job]:
    """Take every active job away; for who knows that no worker and no trainer is left."""
    active = Job.state.in_(ACTIVE)
    return _lose(session, "The worker that ran it was killed.", active, stopping=active)


def _lose(
    session: Session, message: str, lost: ColumnElement[bool], *, stopping: ColumnElement[bool]
) -> list[Job]:
    # In one order, and without waiting for a job that somebody else has in hand just now: another
    # server that does the same, or a worker that stands still amid its transaction.
    active = (
        select(Job.id, Job.attempt, Job.state)
        .where(Job.state.in_(ACTIVE), lost, or_(Job.state != State.STOPPING, stopping))
        .order_by(Job.id)
        .with_for_update(skip_locked=True)
    )
    ended = [
        _end(session, job_id, attempt, state, message)
        for job_id, attempt, state in session.execute(active).all()
    ]
    return [job for job in ended if job is not None]


def _end(session: Session, job_id: str, attempt: int, state: str, message: str) -> Job | None:
    if state != State.STOPPING:
        return fail(session, job_id, attempt, Reason.WORKER_LOST, message, outcome=LOST)
    told = {"reason": Reason.WORKER_LOST, "message": f"Cancelled on request. {message}"}
    return leave(session, job_id, attempt, State.CANCELLED, outcome=LOST, **told)

"""Lease expiry: end the attempts of workers that have stopped renewing their leases."""

from typing import Final

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from ampcore.spec import ACTIVE, Reason, State
from store.attempts import fail
from store.clock import after, now
from store.leases import SELF_FENCE_S
from store.state_transitions import end_attempt
from store.tables import Job

LOST: Final = "lost"
"""The outcome of an attempt whose lease expired."""


def expire(session: Session) -> list[Job]:
    """End every attempt whose lease has expired; returns the updated jobs."""
    # A stopping process may still run until its disconnected worker ends it (SELF_FENCE_S).
    gone = Job.lease_expires_at < after(-SELF_FENCE_S)
    message = "Its worker stopped sending heartbeats."
    return _end_attempts(session, message, Job.lease_expires_at < now(), stopping=gone)


def expire_all(session: Session) -> list[Job]:
    """End every active attempt; only if no worker and no trainer is left."""
    active = Job.state.in_(ACTIVE)
    return _end_attempts(session, "The worker that ran it was killed.", active, stopping=active)


def _end_attempts(
    session: Session, message: str, lost: ColumnElement[bool], *, stopping: ColumnElement[bool]
) -> list[Job]:
    # In a fixed order, and without waiting for locked jobs: another server may do the same, or a
    # suspended worker may hold the lock.
    active = (
        select(Job.id, Job.attempt, Job.state)
        .where(Job.state.in_(ACTIVE), lost, or_(Job.state != State.STOPPING, stopping))
        .order_by(Job.id)
        .with_for_update(skip_locked=True)
    )
    ended = [
        _end_attempt(session, job_id, attempt, state, message)
        for job_id, attempt, state in session.execute(active).all()
    ]
    return [job for job in ended if job is not None]


def _end_attempt(
    session: Session, job_id: str, attempt: int, state: str, message: str
) -> Job | None:
    if state != State.STOPPING:
        return fail(session, job_id, attempt, Reason.WORKER_LOST, message, outcome=LOST)
    fields = {"reason": Reason.WORKER_LOST, "message": f"Cancelled on request. {message}"}
    return end_attempt(session, job_id, attempt, State.CANCELLED, outcome=LOST, **fields)

"""Lease expiry: end the attempts whose worker or program has stopped renewing its lease."""

from typing import Any, Final

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from ampcore.spec import ACTIVE, Reason, Source, State
from store.attempts import fail
from store.clock import after, now
from store.leases import RUN_LEASE_S, SELF_FENCE_S
from store.state_transitions import end_attempt
from store.tables import Job

LOST: Final = "lost"
"""The outcome of an attempt whose lease expired."""
RUN_LOST: Final = (
    Reason.RUN_LOST,
    f"The program that trains it sent nothing for {RUN_LEASE_S:g} s. "
    "The run continues with its next data.",
)
"""The reason and the message for a tracked run."""


def expire(session: Session) -> list[Job]:
    """End every attempt whose lease has expired; returns the updated jobs."""
    # A stopping process may still run until its disconnected worker ends it (SELF_FENCE_S).
    gone = Job.lease_expires_at < after(-SELF_FENCE_S)
    message = "Its worker stopped sending heartbeats."
    return _end_attempts(session, message, Job.lease_expires_at < now(), stopping=gone)


def expire_all(session: Session) -> list[Job]:
    """End every active attempt of a worker; only if no worker and no trainer is left."""
    active = Job.source == Source.SUBMITTED  # the programs of tracked runs go on elsewhere
    return _end_attempts(session, "The worker that ran it was killed.", active, stopping=active)


def _end_attempts(
    session: Session, message: str, lost: ColumnElement[bool], *, stopping: ColumnElement[bool]
) -> list[Job]:
    # In a fixed order, and without waiting for locked jobs: another server may do the same, or a
    # suspended worker may hold the lock.
    active = (
        select(Job.id, Job.attempt, Job.state, Job.source)
        .where(Job.state.in_(ACTIVE), lost, or_(Job.state != State.STOPPING, stopping))
        .order_by(Job.id)
        .with_for_update(skip_locked=True)
    )
    rows = session.execute(active).all()
    ended = [_end_attempt(session, row, message) for row in rows]
    return [job for job in ended if job is not None]


def _end_attempt(session: Session, row: Any, message: str) -> Job | None:
    reason, message = RUN_LOST if row.source == Source.TRACKED else (Reason.WORKER_LOST, message)
    if row.state != State.STOPPING:
        return fail(session, row.id, row.attempt, reason, message, outcome=LOST)
    fields = {"reason": reason, "message": f"Cancelled on request. {message}"}
    return end_attempt(session, row.id, row.attempt, State.CANCELLED, outcome=LOST, **fields)

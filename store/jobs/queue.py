"""Queued jobs that need a message to a worker; why one waits is in store.listing.waiting_reason."""

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, or_, select, update
from sqlalchemy.orm import Session, load_only

from ampspec.jobs import State
from store.clock import from_now, now
from store.jobs.attempts import is_due
from store.scheduling.queue_names import queue_names
from store.tables import QUEUED, Job
from store.tables.jobs import ONE_RANK


def queues_to_dispatch(session: Session, *, silent_for_s: float) -> Sequence[str]:
    """The queues with due jobs for which no message was sent in the last `silent_for_s` seconds."""
    names = queue_names()
    due_ones = [
        select(Job.id)
        .where(Job.queue == names.c.queue, Job.state == QUEUED, Job.ranks == ONE_RANK, *condition)
        .correlate(names)
        # PostgreSQL would read all queued jobs at once for an EXISTS without it.
        .offset(0)
        .exists()
        for condition in _undispatched_conditions(silent_for_s)
    ]
    return session.scalars(select(names.c.queue).where(or_(*due_ones))).all()


def _undispatched_conditions(silent_for_s: float) -> Sequence[tuple[ColumnElement[bool], ...]]:
    """Of jobs of one queue, each a range of the index of undispatched jobs."""
    never = Job.dispatched_at.is_(None)
    return (
        (Job.dispatched_at < from_now(-silent_for_s), is_due()),
        (never, Job.not_before.is_(None)),
        (never, Job.not_before <= now()),
    )


def undispatched_jobs(
    session: Session, queue: str, *, silent_for_s: float, limit: int
) -> Sequence[Job]:
    """The undispatched jobs of one queue, the highest priority first: id, queue and policy.

    Which job a message is for does not matter: the worker claims the next one.
    """
    statement = (
        select(Job)
        .options(load_only(Job.id, Job.queue, Job.policy))
        .where(*_is_undispatched(silent_for_s), Job.queue == queue)
        .order_by(Job.priority.desc(), Job.created_at, Job.id)
    )
    return session.scalars(statement.limit(limit)).all()


def _is_undispatched(silent_for_s: float) -> tuple[ColumnElement[bool], ...]:
    # A job that is retried has no `dispatched_at`; it is dispatched when it is due.
    undispatched_jobs = or_(
        Job.dispatched_at.is_(None), Job.dispatched_at < from_now(-silent_for_s)
    )
    # Gangs are started by reservations (store.gangs.gangs).
    return Job.state == State.QUEUED, is_due(), undispatched_jobs, Job.ranks == 1


def mark_dispatched(session: Session, job_ids: Collection[str]) -> None:
    """Record that messages were sent for these jobs, except for those claimed since."""
    # In a fixed order and without waiting for locks: two servers may do this at the same time.
    queued_jobs = (
        select(Job.id)
        .where(Job.id.in_(job_ids), Job.state == State.QUEUED)
        .order_by(Job.id)
        .with_for_update(skip_locked=True)
    )
    session.execute(
        update(Job)
        .where(Job.id.in_(queued_jobs))
        .values(dispatched_at=now())
        .execution_options(synchronize_session=False)
    )

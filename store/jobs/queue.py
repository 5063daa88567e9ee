"""Queued jobs that need a message to a worker; why one waits is in store.listing.waiting_reason."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Float, Select, bindparam, or_, select, update
from sqlalchemy.orm import Session, load_only

from ampspec.jobs import State
from store.clock import from_now, now
from store.jobs.attempts import is_due
from store.scheduling.queue_names import queue_names
from store.tables import QUEUED, Job
from store.tables.jobs import ONE_RANK


def queues_to_dispatch(reader: Session | Connection, *, silent_for_s: float) -> Sequence[str]:
    """The queues with due jobs for which no message was sent in the last `silent_for_s` seconds.

    Args:
        reader: A session, or a connection without a transaction: it is one statement.
        silent_for_s: How long no message was sent for a job.

    Returns:
        The names of the queues.
    """
    return reader.scalars(_QUEUES_TO_DISPATCH, {"since_s": -silent_for_s}).all()


def _queues_to_dispatch() -> Select[Any]:
    names = queue_names()
    # Each condition is a range of the index of undispatched jobs. In the order of the index and
    # with a limit, PostgreSQL reads the first row of the range; for an EXISTS it would read the
    # whole table where most jobs are queued and were dispatched long ago.
    never = Job.dispatched_at.is_(None)
    since = from_now(bindparam("since_s", type_=Float))
    first_jobs = [
        select(Job.id)
        .where(Job.queue == names.c.queue, Job.state == QUEUED, Job.ranks == ONE_RANK, *condition)
        .correlate(names)
        .order_by(Job.queue, Job.dispatched_at, Job.not_before)
        .limit(1)
        .scalar_subquery()
        for condition in (
            (Job.dispatched_at < since, is_due()),
            (never, Job.not_before.is_(None)),
            (never, Job.not_before <= now()),
        )
    ]
    has_due_job = or_(*(job.is_not(None) for job in first_jobs))
    return select(names.c.queue).where(names.c.queue.is_not(None), has_due_job)


# Built once: building a statement takes as long as executing it.
_QUEUES_TO_DISPATCH: Final = _queues_to_dispatch()


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

"""Allocations: which jobs need one, and what the batch system says of those that it has."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, and_, case, delete, func, or_, select, update
from sqlalchemy.orm import Session

from ampspec.api.job.allocations import allocation_name, batch_system_name
from ampspec.jobs import State
from ampspec.telemetry import EventType
from store.clock import from_now, now, seconds_since
from store.jobs.attempts import is_due
from store.jobs.state_transitions import add_event
from store.scheduling import fair_share
from store.tables import QUEUED, Allocation, Gang, Job

SUBMITTING: Final = "SUBMITTING"
"""The state of an allocation that the batch system may not know yet."""
SUBMITTED: Final = "SUBMITTED"
"""The state of one that the batch system has accepted, until it says more of it."""
REFUSED: Final = "REFUSED"
"""The state of one that the batch system did not accept."""
LOST: Final = "LOST"
"""The state of one that the batch system no longer knows."""
RETRY_S: Final = 30.0
"""After an allocation that ended before a worker claimed its job: the pause before the next one,
which doubles with each further one."""
MAX_RETRY_S: Final = 960.0
KEPT: Final = 20
"""How many of the allocations for one attempt are kept; a wrong account is refused for weeks."""


_REQUESTED: Final[Sequence[Any]] = (
    Job.id,
    Job.project,
    Job.queue,
    Job.attempt,
    Job.spec,
    Job.ranks.label("devices"),
    Gang.workers.label("nodes"),
    Gang.devices.label("devices_of_node"),
)
"""What an allocation asks for."""


def task_of(engine: str, queue: str) -> str:
    """The name under which a scheduler leads a queue; see `store.leaders`."""
    return f"{engine} {queue}"


def pause_s(number: int) -> float:
    """How long after the end of an allocation with this number the next one is submitted.

    Args:
        number: Of those that ended before a worker had claimed the job, from 1.
    """
    return min(RETRY_S * 2.0 ** (number - 1), MAX_RETRY_S)


def unfinished(session: Session, engine: str, queues: Collection[str]) -> Sequence[Any]:
    """The allocations that were made for these queues and have not ended, with their jobs.

    The columns of a job that was deleted are None.
    """
    statement = (
        select(
            Allocation,
            Job.state.label("job_state"),
            Job.queue.label("job_queue"),
            seconds_since(Job.changed_at).label("job_unchanged_for_s"),
        )
        .join(Job, Job.id == Allocation.job_id, isouter=True)
        .where(Allocation.engine == engine, Allocation.ended_at.is_(None))
        .where(Allocation.queue.in_(queues))
        .order_by(Allocation.created_at, Allocation.name)
    )
    return session.execute(statement).all()


def jobs_without(session: Session, engine: str, queue: str, limit: int) -> list[Any]:
    """Queued jobs of a queue that need an allocation now, in the order of their turns.

    Those of projects whose quotas are used up are left out: by jobs that run, or by allocations.
    A job whose last allocations ended before a worker claimed it waits for a while.
    """
    waiting_jobs = _waiting(session, engine, queue, limit)
    shares = fair_share.project_shares(session.connection(), {job.project for job in waiting_jobs})
    for project, devices, jobs in _allocated(session, engine, list(shares)):
        shares[project] = fair_share.with_reservation(shares[project], devices, jobs=jobs)
    chosen_jobs = []
    for job in waiting_jobs:
        if shares[job.project].refusal(job.devices) is None:
            shares[job.project] = fair_share.with_reservation(shares[job.project], job.devices)
            chosen_jobs.append(job)
    return chosen_jobs


def _waiting(session: Session, engine: str, queue: str, limit: int) -> Sequence[Any]:
    failed = _failed_of_attempt(engine)
    pauses = [(failed.c.count == number, pause_s(number)) for number in range(1, 6)]
    statement = (
        select(*_REQUESTED, func.coalesce(failed.c.count, 0).label("failed"))
        .join(Gang, Gang.job_id == Job.id, isouter=True)
        .join(
            failed,
            and_(failed.c.job_id == Job.id, failed.c.attempt == Job.attempt + 1),
            isouter=True,
        )
        .where(Job.state == QUEUED, Job.queue == queue, is_due())
        .where(~_has_unfinished(engine))
        .where(
            or_(
                failed.c.count.is_(None),
                seconds_since(failed.c.ended_at) >= case(*pauses, else_=MAX_RETRY_S),
            )
        )
        .order_by(Job.turn_at, Job.id)
        .limit(limit)
    )
    return session.execute(statement).all()


def job_of(session: Session, job_id: str) -> Any | None:
    """What a job asks for, as `jobs_without` returns it; None if it is gone."""
    statement = select(*_REQUESTED).join(Gang, Gang.job_id == Job.id, isouter=True)
    return session.execute(statement.where(Job.id == job_id)).one_or_none()


def _has_unfinished(engine: str) -> ColumnElement[bool]:
    return (
        select(Allocation.name)
        .where(
            Allocation.job_id == Job.id,
            Allocation.engine == engine,
            Allocation.ended_at.is_(None),
        )
        .exists()
    )


def _failed_of_attempt(engine: str) -> Any:
    """Of each attempt: how many of its allocations have ended, and the end of the last one."""
    return (
        select(
            Allocation.job_id,
            Allocation.attempt,
            func.max(Allocation.number).label("count"),  # the first ones may be deleted
            func.max(Allocation.ended_at).label("ended_at"),
        )
        .where(Allocation.engine == engine, Allocation.ended_at.is_not(None))
        .group_by(Allocation.job_id, Allocation.attempt)
        .subquery()
    )


def _allocated(session: Session, engine: str, projects: Collection[str]) -> Sequence[Any]:
    """By project: the devices and the number of queued jobs that have an allocation."""
    statement = (
        select(Job.project, func.sum(Job.ranks), func.count())
        .where(Job.project.in_(projects), Job.state == QUEUED, _has_unfinished(engine))
        .group_by(Job.project)
    )
    return [(project, int(devices), jobs) for project, devices, jobs in session.execute(statement)]


def create(session: Session, engine: str, job: Any) -> Allocation | None:
    """Record an allocation for the next attempt of a job, before it is submitted.

    None if the job is no longer queued, or has one by now: another scheduler was faster.
    """
    locked = select(Job.id).where(
        Job.id == job.id, Job.state == State.QUEUED, Job.attempt == job.attempt
    )
    if session.scalar(locked.with_for_update()) is None:
        return None
    has_one = select(Allocation.name).where(
        Allocation.job_id == job.id,
        Allocation.engine == engine,
        Allocation.ended_at.is_(None),
    )
    if session.scalar(has_one) is not None:
        return None
    attempt, number = job.attempt + 1, job.failed + 1
    session.execute(
        delete(Allocation).where(
            Allocation.job_id == job.id,
            Allocation.attempt == attempt,
            Allocation.engine == engine,
            Allocation.number <= number - KEPT,
        )
    )
    allocation = Allocation(
        name=f"ampcore-{job.id}-{attempt}-{number}",
        job_id=job.id,
        attempt=attempt,
        number=number,
        queue=job.queue,
        engine=engine,
        state=SUBMITTING,
    )
    session.add(allocation)
    session.flush()
    return allocation


def record(session: Session, name: str, **values: Any) -> Allocation | None:
    """Record what the batch system says of an allocation; None if it has ended."""
    statement = (
        update(Allocation)
        .where(Allocation.name == name, Allocation.ended_at.is_(None))
        .values(**values)
        .returning(Allocation)
        .execution_options(populate_existing=True, synchronize_session=False)
    )
    return session.scalars(statement).one_or_none()


def end(session: Session, name: str, state: str, reason: str | None, **values: Any) -> None:
    """Record the end of an allocation, and an event of its job if that still waits for it.

    There is one event for several ends in a row with the same reason.

    Args:
        session: That of the transaction.
        name: The name of the allocation; nothing is recorded if it has ended before.
        state: Its last state.
        reason: Why it has ended.
        values: What else the batch system says of it.
    """
    values |= {"state": state, "reason": reason, "ended_at": now(), "expected_start_at": None}
    allocation = record(session, name, **values)
    if allocation is not None and not _is_repetition(session, allocation):
        _add_event_of_waiting_job(session, allocation)


def ended_sentence(allocation: Allocation | Row[Any]) -> str:
    """What became of an allocation that has ended before a worker claimed its job."""
    batch_system = batch_system_name(allocation.engine)
    if allocation.state == REFUSED:
        return f"{batch_system} does not accept it: {allocation.reason}"
    is_known = allocation.external_id is not None
    name = allocation_name(allocation.engine, allocation.external_id)
    subject = name if is_known else "Its allocation"
    reason = f" ({allocation.reason})" if allocation.reason else ""
    return f"{subject} has ended before a worker ran it: {allocation.state}{reason}."


def _is_repetition(session: Session, allocation: Allocation) -> bool:
    """Whether the allocation before it, for the same attempt, has ended in the same way."""
    statement = select(Allocation.state, Allocation.reason).where(
        Allocation.job_id == allocation.job_id,
        Allocation.attempt == allocation.attempt,
        Allocation.engine == allocation.engine,
        Allocation.number == allocation.number - 1,
    )
    previous = session.execute(statement).one_or_none()
    return previous is not None and tuple(previous) == (allocation.state, allocation.reason)


def _add_event_of_waiting_job(session: Session, allocation: Allocation) -> None:
    """Add an event to the job if it is queued for the attempt that the allocation was made for."""
    statement = (
        update(Job)
        .where(
            Job.id == allocation.job_id,
            Job.state == State.QUEUED,
            Job.attempt == allocation.attempt - 1,
            Job.queue == allocation.queue,
        )
        .values(seq=Job.seq + 1)
        .returning(Job.id, Job.seq, Job.attempt, Job.step)
        .execution_options(synchronize_session=False)
    )
    job: Any = session.execute(statement).one_or_none()
    if job is not None:
        data = {"message": ended_sentence(allocation), "name": allocation.name}
        add_event(session, job, EventType.ALLOCATION, {**data, "state": allocation.state})


def delete_of_deleted_jobs(session: Session, *, ended_for_s: float) -> None:
    """Delete the rows of allocations that have ended and whose job was deleted."""
    jobs = select(Job.id).where(Job.id == Allocation.job_id)
    session.execute(
        delete(Allocation)
        .where(Allocation.ended_at < from_now(-ended_for_s), ~jobs.exists())
        .execution_options(synchronize_session=False)
    )


def of_job(session: Session, job_id: str) -> Sequence[Allocation]:
    """All allocations of a job, the oldest first."""
    statement = select(Allocation).where(Allocation.job_id == job_id)
    return session.scalars(statement.order_by(Allocation.created_at, Allocation.name)).all()

"""Allocations: which jobs need one, and what the batch system says of those that it has."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import Row, delete, func, or_, select, update
from sqlalchemy.orm import Session

from ampspec.api.job.allocations import allocation_name, batch_system_name
from ampspec.jobs import State
from ampspec.telemetry import EventType
from store.clock import from_now, now, seconds_since
from store.jobs.attempts import is_due
from store.jobs.state_transitions import add_event
from store.scheduling import fair_share
from store.scheduling.queue_names import queue_names
from store.tables import QUEUED, Allocation, Gang, Job, Worker

SUBMITTING: Final = "SUBMITTING"
"""The state of an allocation that the batch system may not know yet."""
SUBMITTED: Final = "SUBMITTED"
"""The state of one that the batch system has accepted, until it says more of it."""
REFUSED: Final = "REFUSED"
"""The state of one that the batch system did not accept."""
LOST: Final = "LOST"
"""The state of one that the batch system no longer knows, although its job needs it."""
CANCELLING: Final = "CANCELLING"
"""The state of one that the scheduler has cancelled, until the batch system has ended it."""
CANCELLED: Final = "CANCELLED"
ENDED: Final = "ENDED"
"""The state of one that the batch system no longer knows, and whose job needs it no more."""
NOT_NEEDED: Final = "Its job needs it no more."
"""The reason of one that the scheduler has cancelled: not counted as a failure."""
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


def base_queue(queue: str) -> str:
    """The queue of jobs that need a package, without the package: `gpu` of `gpu/PACKAGE`."""
    return queue.partition("/")[0]


def unfinished(session: Session, engine: str, queues: Collection[str]) -> Sequence[Any]:
    """The allocations that were made for these queues and have not ended, with their jobs.

    The columns of a job that was deleted are None. `runs_elsewhere`: on a worker that no batch
    system has started.
    """
    statement = (
        select(
            Allocation,
            Job.state.label("job_state"),
            Job.queue.label("job_queue"),
            seconds_since(Job.changed_at).label("job_unchanged_for_s"),
            seconds_since(Allocation.submitted_at).label("submitted_for_s"),
            (Worker.id.is_not(None) & Worker.job_id.is_(None)).label("runs_elsewhere"),
        )
        .join(Job, Job.id == Allocation.job_id, isouter=True)
        .join(Worker, Worker.id == Job.worker_id, isouter=True)
        .where(Allocation.engine == engine, Allocation.ended_at.is_(None))
        .where(Allocation.queue.in_(queues))
        .order_by(Allocation.created_at, Allocation.name)
    )
    return session.execute(statement).all()


def ended_among(session: Session, names: Collection[str]) -> Sequence[str]:
    """Those of the named allocations that have ended, as far as is recorded here."""
    statement = select(Allocation.name).where(
        Allocation.name.in_(names), Allocation.ended_at.is_not(None)
    )
    return session.scalars(statement).all()


def jobs_without(session: Session, engine: str, queue: str, limit: int) -> list[Any]:
    """Queued jobs of a queue that need an allocation now, in the order of their turns.

    Those of projects whose quotas are used up are left out: by jobs that run, or by allocations.
    A job whose last allocations ended before a worker claimed it waits for a while.
    """
    every_queue = session.scalars(select(queue_names().c.queue)).all()
    queues = [name for name in every_queue if name and base_queue(name) == queue]
    shares: dict[str, fair_share.ProjectShare] = {}
    chosen_jobs: list[Any] = []
    full_projects: set[str] = set()
    while queues and len(chosen_jobs) < limit:
        waiting_jobs = _waiting(
            session,
            engine,
            queues,
            full_projects=full_projects,
            chosen_ids=[job.id for job in chosen_jobs],
            limit=limit,
        )
        if not waiting_jobs:
            break
        _add_shares(session, engine, shares, {job.project for job in waiting_jobs})
        for job in waiting_jobs[: limit - len(chosen_jobs)]:
            if job.project in full_projects:
                continue
            if shares[job.project].refusal(job.devices) is None:
                shares[job.project] = fair_share.with_reservation(shares[job.project], job.devices)
                chosen_jobs.append(job)
            else:
                full_projects.add(job.project)
    return chosen_jobs


def _add_shares(
    session: Session,
    engine: str,
    shares: dict[str, fair_share.ProjectShare],
    projects: Collection[str],
) -> None:
    """Add the shares of further projects, less what their allocations wait for."""
    new = [project for project in projects if project not in shares]
    shares |= fair_share.project_shares(session.connection(), new)
    for project, devices, jobs in _allocated(session, engine, new):
        shares[project] = fair_share.with_reservation(shares[project], devices, jobs=jobs)


def _waiting(
    session: Session,
    engine: str,
    queues: Collection[str],
    *,
    full_projects: Collection[str],
    chosen_ids: Collection[str],
    limit: int,
) -> Sequence[Any]:
    of_attempt = select(Allocation.name).where(
        Allocation.job_id == Job.id,
        or_(
            (Allocation.engine == engine) & Allocation.ended_at.is_(None),
            (Allocation.attempt == Job.attempt + 1) & (Allocation.retry_at > now()),
        ),
    )
    statement = (
        select(*_REQUESTED)
        .join(Gang, Gang.job_id == Job.id, isouter=True)
        .where(Job.state == QUEUED, Job.queue.in_(queues), is_due())
        .where(~of_attempt.exists())
        .order_by(Job.turn_at, Job.id)
        .limit(limit)
    )
    if full_projects:
        statement = statement.where(Job.project.not_in(full_projects))
    if chosen_ids:
        statement = statement.where(Job.id.not_in(chosen_ids))
    return session.execute(statement).all()


def job_of(session: Session, job_id: str) -> Any | None:
    """What a job asks for, as `jobs_without` returns it; None if it is gone."""
    statement = select(*_REQUESTED).join(Gang, Gang.job_id == Job.id, isouter=True)
    return session.execute(statement.where(Job.id == job_id)).one_or_none()


def _allocated(session: Session, engine: str, projects: Collection[str]) -> Sequence[Any]:
    """By project: the devices and the number of queued jobs that have an allocation."""
    statement = (
        select(Job.project, func.sum(Job.ranks), func.count())
        .join(Allocation, Allocation.job_id == Job.id)
        .where(Allocation.engine == engine, Allocation.ended_at.is_(None))
        .where(Job.project.in_(projects), Job.state == QUEUED)
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
    attempt = job.attempt + 1
    of_attempt = (Allocation.job_id == job.id) & (Allocation.attempt == attempt)
    # Of all batch systems: the queue may have been served by another one.
    number = (session.scalar(select(func.max(Allocation.number)).where(of_attempt)) or 0) + 1
    session.execute(
        delete(Allocation).where(
            of_attempt, Allocation.ended_at.is_not(None), Allocation.number <= number - KEPT
        )
    )
    allocation = Allocation(
        name=f"ampcore-{job.id}-{attempt}-{number}",
        job_id=job.id,
        attempt=attempt,
        number=number,
        queue=base_queue(job.queue),
        engine=engine,
        state=SUBMITTING,
    )
    session.add(allocation)
    session.flush()
    return allocation


def note_worker(session: Session, job_id: str, message: str) -> None:
    """Record why a worker did not run its job, with the allocation that it was started in.

    Args:
        session: That of the transaction.
        job_id: The job; nothing is recorded if it has no allocation that goes on.
        message: What the worker says.
    """
    session.execute(
        update(Allocation)
        .where(Allocation.job_id == job_id, Allocation.ended_at.is_(None))
        .values(worker_message=message)
        .execution_options(synchronize_session=False)
    )


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
    if allocation is None or allocation.reason == NOT_NEEDED:
        return
    allocation.retry_at = from_now(pause_s(_failures(session, allocation) + 1))
    if not _is_repetition(session, allocation):
        _add_event_of_waiting_job(session, allocation)


def ended_sentence(allocation: Allocation | Row[Any]) -> str:
    """What became of an allocation that has ended before a worker claimed its job."""
    batch_system = batch_system_name(allocation.engine)
    if allocation.state == REFUSED:
        return f"{batch_system} does not accept it: {allocation.reason}"
    is_known = allocation.external_id is not None
    name = allocation_name(allocation.engine, allocation.external_id)
    subject = name if is_known else "Its allocation"
    if allocation.worker_message:
        return f"{subject} has ended. Its worker did not run the job: {allocation.worker_message}"
    reason = f" ({allocation.reason})" if allocation.reason else ""
    return f"{subject} has ended before a worker ran it: {allocation.state}{reason}."


def _failures(session: Session, allocation: Allocation) -> int:
    """How many allocations for the same attempt have failed before this one."""
    statement = select(func.count()).where(
        Allocation.job_id == allocation.job_id,
        Allocation.attempt == allocation.attempt,
        Allocation.retry_at.is_not(None),
    )
    return session.scalar(statement) or 0


def _is_repetition(session: Session, allocation: Allocation) -> bool:
    """Whether the allocation before it, for the same attempt, has ended in the same way."""
    told = (Allocation.state, Allocation.reason, Allocation.worker_message)
    statement = select(*told).where(
        Allocation.job_id == allocation.job_id,
        Allocation.attempt == allocation.attempt,
        Allocation.number == allocation.number - 1,
    )
    previous = session.execute(statement).one_or_none()
    return previous is not None and tuple(previous) == (
        allocation.state,
        allocation.reason,
        allocation.worker_message,
    )


def _add_event_of_waiting_job(session: Session, allocation: Allocation) -> None:
    """Add an event to the job if it is queued for the attempt that the allocation was made for."""
    statement = (
        update(Job)
        .where(
            Job.id == allocation.job_id,
            Job.state == State.QUEUED,
            Job.attempt == allocation.attempt - 1,
            or_(
                Job.queue == allocation.queue,
                Job.queue.startswith(f"{allocation.queue}/", autoescape=True),
            ),
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

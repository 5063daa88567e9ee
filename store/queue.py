"""The jobs that wait: whom to wake for them, and why one of them waits still."""

from collections.abc import Collection, Sequence
from math import ceil
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, func, or_, select, update
from sqlalchemy.orm import Session, load_only

from ampcore.spec import ACTIVE, State
from store import workers
from store.attempts import is_due
from store.clock import after, now, seconds_since
from store.tables import Job, Project


def to_wake(session: Session, *, quiet_s: float) -> Sequence[str]:
    """The queues with jobs that are due and for which no message went out in `quiet_s` seconds."""
    return session.scalars(select(Job.queue).where(*_silent(quiet_s)).distinct()).all()


def silent(session: Session, queue: str, *, quiet_s: float, limit: int) -> Sequence[Job]:
    """Such jobs of one queue, in the order in which they are taken: id, queue and policy."""
    statement = (
        select(Job)
        .options(load_only(Job.id, Job.queue, Job.policy))
        .where(*_silent(quiet_s), Job.queue == queue)
        .order_by(Job.priority.desc(), Job.created_at, Job.id)
    )
    return session.scalars(statement.limit(limit)).all()


def _silent(quiet_s: float) -> tuple[ColumnElement[bool], ...]:
    # One that comes back from a failed attempt has no such moment, and is woken when it is due.
    silent = or_(Job.woken_at.is_(None), Job.woken_at < after(-quiet_s))
    return Job.state == State.QUEUED, is_due(), silent


def note_woken(session: Session, job_ids: Collection[str]) -> None:
    """A message went out for each of these jobs; one that was taken since is left alone."""
    # In one order and without waiting: two servers that do this at one time block nobody.
    waiting = (
        select(Job.id)
        .where(Job.id.in_(job_ids), Job.state == State.QUEUED)
        .order_by(Job.id)
        .with_for_update(skip_locked=True)
    )
    session.execute(
        update(Job)
        .where(Job.id.in_(waiting))
        .values(woken_at=now())
        .execution_options(synchronize_session=False)
    )


def why_waiting(session: Session, job: Job | Row[Any]) -> str | None:
    """One sentence on why a queued job does not run yet; None for a job that is not queued."""
    if job.state != State.QUEUED:
        return None
    if job.not_before is not None:
        left_s = -(session.scalar(select(seconds_since(job.not_before))) or 0.0)
        if left_s > 0:
            return f"Its last attempt failed; it is tried again in {ceil(left_s)} s."
    if quota := _quota(session, job):
        return quota
    online = workers.online(session, job.queue)
    if not online:
        return (
            f"No online worker serves the queue {job.queue!r}; start one with "
            f"{job.queue!r} in AMPCORE_WORKER_QUEUES."
        )
    slots = sum(worker.slots for worker in online)
    ahead = _ahead(session, job)
    place = f"It is number {ahead + 1} in the queue {job.queue!r}"
    busy = _running_on(session, [worker.id for worker in online])
    if busy < slots:
        return f"{place}; a worker takes it in a moment."
    taken = "the only slot of its workers is" if slots == 1 else f"all {slots} slots are"
    return f"{place}, and {taken} taken."


def _quota(session: Session, job: Job | Row[Any]) -> str | None:
    most = session.scalar(select(Project.max_running).where(Project.name == job.project))
    if most is None:
        return None
    running = select(func.count()).where(Job.project == job.project, Job.state.in_(ACTIVE))
    if (session.scalar(running) or 0) < most:
        return None
    return (
        f"The project {job.project!r} runs as many jobs as its quota of {most} allows; "
        "it starts when one of them ends."
    )


def _ahead(session: Session, job: Job | Row[Any]) -> int:
    """How many due jobs of the same queue are taken before this one."""
    older = or_(
        Job.created_at < job.created_at, and_(Job.created_at == job.created_at, Job.id < job.id)
    )
    before = or_(Job.priority > job.priority, and_(Job.priority == job.priority, older))
    statement = select(func.count()).where(
        Job.state == State.QUEUED, Job.queue == job.queue, is_due(), before
    )
    return session.scalar(statement) or 0


def _running_on(session: Session, worker_ids: Sequence[str]) -> int:
    statement = select(func.count()).where(Job.worker_id.in_(worker_ids), Job.state.in_(ACTIVE))
    return session.scalar(statement) or 0

"""The jobs that wait: whom to wake for them, and why one of them waits still."""

from collections.abc import Collection, Sequence
from math import ceil
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session, aliased, load_only

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


def why_waiting(connection: Connection, job: Row[Any]) -> str | None:
    """One sentence on why a queued job does not run yet; None for a job that is not queued."""
    if job.state != State.QUEUED:
        return None
    place = connection.execute(_PLACE, {"job_id": job.id}).one_or_none()
    if place is None:  # deleted since it was read
        return None
    if place.due_in_s is not None and place.due_in_s > 0:
        return f"Its last attempt failed; it is tried again in {ceil(place.due_in_s)} s."
    if place.most is not None and place.running >= place.most:
        return (
            f"The project {job.project!r} runs as many jobs as its quota of {place.most} allows; "
            "it starts when one of them ends."
        )
    online = workers.online(connection, job.queue)
    if not online:
        return (
            f"No online worker serves the queue {job.queue!r}; start one with "
            f"{job.queue!r} in AMPCORE_WORKER_QUEUES."
        )
    slots = sum(worker.slots for worker in online)
    number = f"It is number {place.ahead + 1} in the queue {job.queue!r}"
    busy = connection.scalar(_BUSY, {"worker_ids": [worker.id for worker in online]}) or 0
    if busy < slots:
        return f"{number}; a worker takes it in a moment."
    taken = "the only slot of its workers is" if slots == 1 else f"all {slots} slots are"
    return f"{number}, and {taken} taken."


def _place() -> Select[Any]:
    """All that decides when a job is taken, in one question."""
    mine = aliased(Job)
    quota = select(Project.max_running).where(Project.name == mine.project)
    running = select(func.count()).where(Job.project == mine.project, Job.state.in_(ACTIVE))
    older = or_(
        Job.created_at < mine.created_at,
        and_(Job.created_at == mine.created_at, Job.id < mine.id),
    )
    before = or_(Job.priority > mine.priority, and_(Job.priority == mine.priority, older))
    ahead = select(func.count()).where(
        Job.state == State.QUEUED, Job.queue == mine.queue, is_due(), before
    )
    return select(
        (-seconds_since(mine.not_before)).label("due_in_s"),
        quota.scalar_subquery().label("most"),
        running.scalar_subquery().label("running"),
        ahead.scalar_subquery().label("ahead"),
    ).where(mine.id == bindparam("job_id"))


# Made once: to put a statement together takes as long as to carry it out.
_PLACE: Final = _place()
_BUSY: Final = select(func.count()).where(
    Job.worker_id.in_(bindparam("worker_ids", expanding=True)), Job.state.in_(ACTIVE)
)

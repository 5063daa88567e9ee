"""What workers do with a job: take it, run it, and leave it in one of the ways there are."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, func, or_, select, tuple_, update
from sqlalchemy.orm import Session

from ampcore.series.jsonable import finite_json, storable
from ampcore.spec import ACTIVE, Reason, State
from store import retries
from store.changes import change, leave
from store.clock import after, now, seconds_since
from store.leases import LEASE_S
from store.tables import Attempt, Job, Project

HANDED_BACK: Final = "handed_back"


def claim_next(
    session: Session, worker_id: str, queues: Collection[str], *, lease_s: float = LEASE_S
) -> Job | None:
    """Take the job that is next for a worker of these queues; None when none waits for it.

    The highest priority goes first, then the oldest. Projects that run as many jobs as their
    quota allows are passed over.
    """
    next_one = (
        select(Job.id)
        .where(Job.state == State.QUEUED, Job.queue.in_(queues), is_due())
        .where(Job.project.not_in(_full_projects(session)))
        .order_by(Job.priority.desc(), Job.created_at, Job.id)
        .limit(1)
    )
    # First past the jobs that others have in hand just now. Where nothing else is left, after
    # them: whoever has the last one may have edited it only.
    for past_others in (True, False):
        locking = next_one.with_for_update(of=Job, skip_locked=past_others)
        if job_id := session.scalars(locking).one_or_none():
            return claim(session, job_id, worker_id, lease_s=lease_s)
    return None


def claim(session: Session, job_id: str, worker_id: str, *, lease_s: float = LEASE_S) -> Job | None:
    """Take a queued job; None when another worker has it or it is gone."""
    job = change(
        session,
        job_id,
        State.STARTING,
        attempt=Job.attempt + 1,
        worker_id=worker_id,
        lease_expires_at=after(lease_s),
        requested=None,
        told=0,
        not_before=None,
        started_at=func.coalesce(Job.started_at, now()),
    )
    if job is not None:
        session.add(
            Attempt(
                job_id=job_id,
                attempt=job.attempt,
                worker_id=worker_id,
                waited_s=seconds_since(job.queued_at),
            )
        )
        session.flush()
    return job


def is_due() -> ColumnElement[bool]:
    """That a queued job need not wait for a later moment."""
    return or_(Job.not_before.is_(None), Job.not_before <= now())


def mark_running(
    session: Session,
    job_id: str,
    attempt: int,
    *,
    total_steps: int,
    first_step: int,
    totals: dict[str, Any] | None = None,
) -> Job | None:
    """The trainer's loop is about to run; None when another attempt owns the job.

    `totals` is what the steps before the first one add up to.
    A job that was asked to pause or stop in the meantime stays so; it has begun all the same.
    """
    facts = {"total_steps": total_steps, "step": first_step, "totals": finite_json(totals)}
    told = {"reason": None, "message": None}
    job = change(session, job_id, State.RUNNING, Job.attempt == attempt, **facts, **told)
    if job is None:
        begun = update(Job).where(
            Job.id == job_id, Job.attempt == attempt, Job.state.in_(ACTIVE - {State.STARTING})
        )
        options = {"populate_existing": True, "synchronize_session": False}
        begun = begun.values(**facts).returning(Job).execution_options(**options)
        job = session.scalars(begun).one_or_none()
    if job is not None:
        session.execute(
            update(Attempt)
            .where(tuple_(Attempt.job_id, Attempt.attempt) == (job_id, attempt))
            .values(first_step=first_step)
            .execution_options(synchronize_session=False)
        )
    return job


def mark_succeeded(
    session: Session, job_id: str, attempt: int, summary: dict[str, Any]
) -> Job | None:
    """The job trained to its end.

    As after every end that a worker tells of here: returns the job as it now is (`cancelled`,
    where it was to stop), None when another attempt owns it or it has ended.
    """
    told = {"summary": finite_json(summary), "reason": None, "message": None}
    ended = leave(session, job_id, attempt, State.SUCCEEDED, **told)
    return ended or mark_cancelled(session, job_id, attempt)


def mark_failed(
    session: Session, job_id: str, attempt: int, reason: Reason, message: str
) -> Job | None:
    """An attempt failed; `message` says what a person can do about it.

    The job is queued once more where its reason and `max_attempts` allow.
    """
    ended = fail(session, job_id, attempt, reason, message, outcome=State.FAILED)
    return ended or mark_cancelled(session, job_id, attempt)


def fail(
    session: Session, job_id: str, attempt: int, reason: Reason, message: str, *, outcome: str
) -> Job | None:
    """As `mark_failed`, and never `cancelled`; the attempt's `outcome` says how it ended."""
    job = session.get(Job, job_id, populate_existing=True, with_for_update=True)
    if job is None:
        return None
    failures, message = job.failures + 1, storable(message)
    told: dict[str, Any] = {"reason": reason, "failures": failures}
    wait_s = retries.wait_s(reason, failures, job.max_attempts)
    if wait_s is None:
        state, message = State.FAILED, message + retries.advice(reason, failures)
    elif job.state == State.PAUSING:
        state, message = State.PAUSED, f"{message} It was to pause: resume it to go on."
    else:
        state, told["not_before"], told["woken_at"] = State.QUEUED, after(wait_s), None
        message += (
            f" It goes on from its last checkpoint in {wait_s:g} s: "
            f"attempt {failures + 1} of {job.max_attempts}."
        )
    return leave(session, job_id, attempt, state, outcome=outcome, message=message, **told)


def mark_cancelled(session: Session, job_id: str, attempt: int) -> Job | None:
    """The process of a stopping job is gone."""
    message = "Cancelled on request; its process has ended."
    reason = Reason.USER_REQUEST
    return leave(session, job_id, attempt, State.CANCELLED, reason=reason, message=message)


def mark_paused(session: Session, job_id: str, attempt: int) -> Job | None:
    """The process of a pausing job is gone, and its checkpoint is kept."""
    message = "Paused on request; its process has ended. Resume it to go on from its checkpoint."
    reason = Reason.USER_REQUEST
    paused = leave(session, job_id, attempt, State.PAUSED, reason=reason, message=message)
    return paused or mark_cancelled(session, job_id, attempt)


def hand_back(session: Session, job_id: str, attempt: int) -> Job | None:
    """A worker that shuts down gives its job back; no failure of the job's."""
    told = {
        "reason": Reason.WORKER_SHUTDOWN,
        "message": "Its worker was shut down; it goes on from its checkpoint on another one.",
        "woken_at": None,
    }
    queued = leave(session, job_id, attempt, State.QUEUED, outcome=HANDED_BACK, **told)
    return queued or mark_paused(session, job_id, attempt)


def listing(session: Session, job_id: str) -> Sequence[Attempt]:
    """Every attempt at a job, the first one first."""
    statement = select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.attempt)
    return session.scalars(statement).all()


def used_s(session: Session, job_id: str) -> float:
    """The seconds that the ended attempts at a job have had a worker for.

    Since the last one that had no time left: whoever retries the job gives it as much again.
    """
    lasted = seconds_since(Attempt.started_at, until=Attempt.finished_at)
    timed_out = (
        select(func.coalesce(func.max(Attempt.attempt), 0))
        .where(Attempt.job_id == job_id, Attempt.reason == Reason.TIMEOUT)
        .scalar_subquery()
    )
    statement = select(func.sum(lasted)).where(
        Attempt.job_id == job_id, Attempt.attempt > timed_out, Attempt.finished_at.is_not(None)
    )
    return float(session.scalar(statement) or 0.0)


def _full_projects(session: Session) -> list[str]:
    """The projects that may not run another job now."""
    # Locked: of two workers that claim at one time the second sees what the first has taken.
    # In one order, and without the key: who posts jobs for the project does not wait for us.
    limits = session.execute(
        select(Project.name, Project.max_running)
        .where(Project.max_running.is_not(None))
        .order_by(Project.name)
        .with_for_update(key_share=True)
    ).all()
    if not limits:
        return []
    running = dict(
        session.execute(
            select(Job.project, func.count())
            .where(Job.state.in_(ACTIVE), Job.project.in_([name for name, _ in limits]))
            .group_by(Job.project)
        ).all()
    )
    return [name for name, most in limits if most is not None and running.get(name, 0) >= most]

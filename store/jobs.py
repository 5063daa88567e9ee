"""The life of a job: every change of state is one compare-and-set that writes an event."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, or_, select, tuple_, update
from sqlalchemy.orm import Session

from ampcore.series import EventType
from ampcore.series.jsonable import finite_json, storable
from ampcore.spec import ACTIVE, JobSpec, Reason, State
from ampcore.spec.states import sources
from store.clock import after, now
from store.tables import Attempt, EventRow, Job

LEASE_S: Final = 30.0
CANCEL: Final = "cancel"


@dataclass(frozen=True)
class Standing:
    """What a worker learns when the job is still its own: the action asked of it, if any."""

    seq: int
    requested: str | None


def create(session: Session, spec: JobSpec) -> Job:
    """Write down a new job; it is queued from here on."""
    job = Job(
        name=spec.name,
        policy=spec.precision.policy,
        model=spec.model.kind,
        labels=spec.labels,
        spec=spec.to_json(),
        seq=1,
    )
    session.add(job)
    session.flush()
    session.add(EventRow(job_id=job.id, seq=1, attempt=0, type=EventType.STATE, data=_told(job)))
    session.flush()
    return job


def get(session: Session, job_id: str) -> Job | None:
    """The job of that id."""
    return session.get(Job, job_id, populate_existing=True)


def page(
    session: Session,
    *,
    states: Collection[str] = (),
    before: tuple[datetime, str] | None = None,
    limit: int,
) -> Sequence[Job]:
    """The newest jobs first, those `before` a job's (created_at, id) when given."""
    statement = select(Job).order_by(Job.created_at.desc(), Job.id.desc()).limit(limit)
    if states:
        statement = statement.where(Job.state.in_(states))
    if before is not None:
        created_at, job_id = before
        statement = statement.where(
            or_(
                Job.created_at < created_at,
                and_(Job.created_at == created_at, Job.id < job_id),
            )
        )
    return session.scalars(statement).all()


def claim(session: Session, job_id: str, worker_id: str) -> Job | None:
    """Take a queued job; None when another worker has it or it is gone."""
    job = _change(
        session,
        job_id,
        State.STARTING,
        attempt=Job.attempt + 1,
        worker_id=worker_id,
        lease_expires_at=after(LEASE_S),
        requested=None,
        started_at=now(),
    )
    if job is not None:
        session.add(Attempt(job_id=job_id, attempt=job.attempt, worker_id=worker_id))
        session.flush()
    return job


def mark_running(session: Session, job_id: str, attempt: int, *, total_steps: int) -> Job | None:
    """The trainer's loop is about to run; None when another attempt owns the job."""
    return _change(session, job_id, State.RUNNING, Job.attempt == attempt, total_steps=total_steps)


def mark_succeeded(
    session: Session, job_id: str, attempt: int, summary: dict[str, Any]
) -> Job | None:
    """The job trained to its end."""
    return _finish(session, job_id, attempt, State.SUCCEEDED, summary=finite_json(summary))


def mark_failed(
    session: Session, job_id: str, attempt: int, reason: Reason, message: str
) -> Job | None:
    """The job ended for a reason; `message` says what a person can do about it."""
    return _finish(session, job_id, attempt, State.FAILED, reason=reason, message=storable(message))


def mark_cancelled(session: Session, job_id: str, attempt: int) -> Job | None:
    """The process of a stopping job is gone."""
    message = "Cancelled on request; its process has ended."
    return _finish(
        session, job_id, attempt, State.CANCELLED, reason=Reason.USER_REQUEST, message=message
    )


def hand_back(session: Session, job_id: str, attempt: int) -> Job | None:
    """A claimed job goes back into the queue; None when its training has begun."""
    job = _change(
        session,
        job_id,
        State.QUEUED,
        Job.state == State.STARTING,
        Job.attempt == attempt,
        lease_expires_at=None,
        woken_at=None,
    )
    if job is not None:
        _end_attempt(session, job, outcome="handed_back")
    return job


def request_cancel(session: Session, job_id: str) -> Job | None:
    """Cancel: a waiting job at once, a running one by asking its worker.

    Returns the job as it now is; None when there is no such job or it has ended otherwise.
    """
    # Locked, so that of two requests at one time the second sees what the first has done.
    if job := session.get(Job, job_id, populate_existing=True, with_for_update=True):
        if job.state in (State.CANCELLED, State.STOPPING):
            return job
        waiting = _change(
            session,
            job_id,
            State.CANCELLED,
            Job.state.in_([State.QUEUED, State.PAUSED]),
            reason=Reason.USER_REQUEST,
            message="Cancelled on request before it ran.",
            finished_at=now(),
        )
        return waiting or _change(session, job_id, State.STOPPING, requested=CANCEL)
    return None


def hold(session: Session, job_id: str, attempt: int, **values: Any) -> Standing | None:
    """The fence: extend the lease of `attempt`, write `values`, learn what is asked.

    None means that another attempt owns the job or that it has ended: the caller must stop
    its process and write nothing.
    """
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.attempt == attempt, Job.state.in_(ACTIVE))
        .values(lease_expires_at=after(LEASE_S), updated_at=now(), **values)
        .returning(Job.seq, Job.requested)
        .execution_options(synchronize_session=False)
    )
    row = session.execute(statement).one_or_none()
    return Standing(*row) if row is not None else None


def count_frames(session: Session, job_id: str, attempt: int, *, told: int, count: int) -> bool:
    """Note that `count` frames follow the first `told` ones; False when they are noted already.

    A writer that lost the answer to its commit tries again, and must not write twice.
    """
    statement = (
        update(Attempt)
        .where(tuple_(Attempt.job_id, Attempt.attempt) == (job_id, attempt))
        .where(Attempt.frames == told)
        .values(frames=told + count)
        .returning(Attempt.frames)
        .execution_options(synchronize_session=False)
    )
    return session.execute(statement).one_or_none() is not None


def to_wake(session: Session, *, quiet_s: float, limit: int) -> Sequence[str]:
    """The ids of queued jobs, oldest first, for which no message went out in `quiet_s` seconds."""
    silent = or_(Job.woken_at.is_(None), Job.woken_at < after(-quiet_s))
    statement = select(Job.id).where(Job.state == State.QUEUED, silent)
    return session.scalars(statement.order_by(Job.created_at).limit(limit)).all()


def note_woken(session: Session, job_ids: Collection[str]) -> None:
    """A message went out for each of these jobs."""
    session.execute(
        update(Job)
        .where(Job.id.in_(job_ids))
        .values(woken_at=now())
        .execution_options(synchronize_session=False)
    )


def expire_leases(session: Session) -> list[Job]:
    """End the jobs whose worker has not been heard of for the length of a lease."""
    message = f"The worker that ran it was not heard of for {LEASE_S:g} s. Submit the job again."
    return _lose(session, message, Job.lease_expires_at < now())


def lose_all(session: Session) -> list[Job]:
    """End every active job at once; for who knows that no worker and no trainer is left."""
    return _lose(session, "The worker that ran it was killed. Submit the job again.")


def _lose(session: Session, message: str, *conditions: ColumnElement[bool]) -> list[Job]:
    """End active jobs whose processes died with their worker: a stopping one as asked."""
    why: dict[str, Any] = {"reason": Reason.WORKER_LOST, "message": message}
    lost = (Job.state.in_(ACTIVE), *conditions)
    ended = [
        _finish(session, job_id, attempt, State.CANCELLED, *lost, **why)
        or _finish(session, job_id, attempt, State.FAILED, *lost, **why)
        for job_id, attempt in session.execute(select(Job.id, Job.attempt).where(*lost))
    ]
    return [job for job in ended if job is not None]


def _finish(
    session: Session,
    job_id: str,
    attempt: int,
    state: State,
    *conditions: ColumnElement[bool],
    **values: Any,
) -> Job | None:
    job = _change(
        session,
        job_id,
        state,
        Job.attempt == attempt,
        *conditions,
        finished_at=now(),
        lease_expires_at=None,
        requested=None,
        **values,
    )
    if job is not None:
        _end_attempt(session, job, outcome=state)
    return job


def _end_attempt(session: Session, job: Job, outcome: str) -> None:
    session.execute(
        update(Attempt)
        .where(tuple_(Attempt.job_id, Attempt.attempt) == (job.id, job.attempt))
        .values(outcome=outcome, reason=job.reason, message=job.message, finished_at=now())
        .execution_options(synchronize_session=False)
    )


def _change(
    session: Session, job_id: str, state: State, *conditions: ColumnElement[bool], **values: Any
) -> Job | None:
    """Change the state if the table of transitions and the conditions allow, and say so."""
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.state.in_(sources(state)), *conditions)
        .values(state=state, seq=Job.seq + 1, updated_at=now(), **values)
        .returning(Job)
        .execution_options(populate_existing=True, synchronize_session=False)
    )
    job = session.scalars(statement).one_or_none()
    if job is not None:
        session.add(
            EventRow(
                job_id=job.id,
                seq=job.seq,
                attempt=job.attempt,
                type=EventType.STATE,
                step=job.step,
                data=_told(job),
            )
        )
        session.flush()
    return job


def _told(job: Job) -> dict[str, Any]:
    told = {"state": job.state, "reason": job.reason, "message": job.message}
    return {key: value for key, value in told.items() if value is not None}

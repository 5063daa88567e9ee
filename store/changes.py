"""Every change of a job's state: one compare-and-set that writes an event."""

from typing import Any

from sqlalchemy import ColumnElement, Row, tuple_, update
from sqlalchemy.orm import Session

from ampcore.series import EventType
from ampcore.spec import State
from ampcore.spec.states import sources
from store.clock import now
from store.rows import write_down
from store.tables import Attempt, EventRow, Job


def change(
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
        note(session, job, EventType.STATE, told(job))
    return job


def note(session: Session, job: Job | Row[Any], event: EventType, data: dict[str, Any]) -> None:
    """Write an event under the seq that the job's row has just got."""
    write_down(session, EventRow, entry(job, event, data))


def entry(job: Job | Row[Any], event: EventType, data: dict[str, Any]) -> dict[str, Any]:
    """The row of an event under the seq that the job's row has just got."""
    facts = {"seq": job.seq, "attempt": job.attempt, "step": job.step}
    return {"job_id": job.id, "type": event, "data": data, **facts}


def told(job: Job | Row[Any]) -> dict[str, Any]:
    """What the event of a change of state says."""
    facts = {"state": job.state, "reason": job.reason, "message": job.message}
    return {key: value for key, value in facts.items() if value is not None}


def leave(
    session: Session,
    job_id: str,
    attempt: int,
    state: State,
    *,
    outcome: str | None = None,
    **values: Any,
) -> Job | None:
    """End an attempt: the job leaves its worker for `state`; None when it was not the attempt's."""
    job = change(
        session,
        job_id,
        state,
        Job.attempt == attempt,
        Job.lease_expires_at.is_not(None),
        lease_expires_at=None,
        requested=None,
        **(values | ({"finished_at": now()} if state.is_terminal else {"queued_at": now()})),
    )
    if job is not None:
        session.execute(
            update(Attempt)
            .where(tuple_(Attempt.job_id, Attempt.attempt) == (job_id, attempt))
            .values(
                outcome=outcome or state,
                reason=job.reason,
                message=job.message,
                finished_at=now(),
            )
            .execution_options(synchronize_session=False)
        )
    return job

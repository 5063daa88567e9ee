"""State transitions: every change of a job's state is one compare-and-set plus an event."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, tuple_, update
from sqlalchemy.orm import Session

from ampspec.jobs import Source, State
from ampspec.jobs.states import source_states
from ampspec.telemetry import EventType
from store.access import project_usage
from store.clock import now
from store.notifications import outbox
from store.rows import insert_rows
from store.tables import Attempt, EventRow, Job


def change_state(
    session: Session, job_id: str, state: State, *conditions: ColumnElement[bool], **values: Any
) -> Job | None:
    """Change the state if transition table and conditions allow it, and write an event."""
    return change_state_from(session, job_id, source_states(state), state, *conditions, **values)


def change_state_from(
    session: Session,
    job_id: str,
    states: Collection[State],
    state: State,
    *conditions: ColumnElement[bool],
    **values: Any,
) -> Job | None:
    """Like `change_state`, but from these states instead of the states of the transition table."""
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.state.in_(states), *conditions)
        .values(state=state, seq=Job.seq + 1, updated_at=now(), changed_at=now(), **values)
        .returning(Job)
        .execution_options(populate_existing=True, synchronize_session=False)
    )
    job = session.scalars(statement).one_or_none()
    if job is not None:
        add_event(session, job, EventType.STATE, state_event_data(job))
        outbox.job_changed(session, job)
    return job


def change_states(
    session: Session,
    job_ids: Collection[str],
    states: Collection[State],
    state: State,
    **values: Any,
) -> Sequence[Row[Any]]:
    """Like `change_state_from`, for several jobs: one statement for them, and one for their events.

    Returns the rows that changed. The caller has locked the jobs in an order of their own.
    """
    if not job_ids:
        return []
    columns: Sequence[Any] = (
        *(Job.id, Job.seq, Job.attempt, Job.step),
        *(Job.state, Job.reason, Job.message),
    )
    statement = (
        update(Job)
        .where(Job.id.in_(job_ids), Job.state.in_(states))
        .values(state=state, seq=Job.seq + 1, updated_at=now(), changed_at=now(), **values)
        .returning(*columns)
        .execution_options(synchronize_session=False)
    )
    rows = session.execute(statement).all()
    events = [event_values(row, EventType.STATE, state_event_data(row)) for row in rows]
    if events:
        insert_rows(session, EventRow, *events)
        outbox.jobs_changed(session, [row.id for row in rows])
    return rows


def add_event(
    session: Session, job: Job | Row[Any], event: EventType, data: dict[str, Any]
) -> None:
    """Insert an event with the job's current seq."""
    insert_rows(session, EventRow, event_values(job, event, data))


def event_values(job: Job | Row[Any], event: EventType, data: dict[str, Any]) -> dict[str, Any]:
    """The values of that event's row."""
    facts = {"seq": job.seq, "attempt": job.attempt, "step": job.step}
    return {"job_id": job.id, "type": event, "data": data, **facts}


def state_event_data(job: Job | Row[Any]) -> dict[str, Any]:
    """The data of the event of a state change."""
    facts = {"state": job.state, "reason": job.reason, "message": job.message}
    return {key: value for key, value in facts.items() if value is not None}


def end_attempt(
    session: Session,
    job_id: str,
    attempt: int,
    state: State,
    *,
    outcome: str | None = None,
    **values: Any,
) -> Job | None:
    """End an attempt and change the job's state; None if another attempt owns the job."""
    job = change_state(
        session,
        job_id,
        state,
        Job.attempt == attempt,
        Job.lease_expires_at.is_not(None),
        lease_expires_at=None,
        requested=None,
        uploading=None,
        activity=None,
        activity_since=None,
        **(values | ({"finished_at": now()} if state.is_terminal else {"queued_at": now()})),
    )
    if job is not None:
        statement = (
            update(Attempt)
            .where(tuple_(Attempt.job_id, Attempt.attempt) == (job_id, attempt))
            .values(
                outcome=outcome or state,
                reason=job.reason,
                message=job.message,
                finished_at=now(),
            )
            .returning(Attempt.started_at, Attempt.finished_at, Attempt.ranks)
            .execution_options(synchronize_session=False)
        )
        row = session.execute(statement).one_or_none()
        if row is not None and job.source == Source.SUBMITTED:
            project_usage.record(session, job.project, row)
    return job

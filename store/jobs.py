"""What people do with a job: post it, look at it, change it, stop it, and let it go on."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update
from sqlalchemy.orm import Session

from ampcore.series import EventType
from ampcore.spec import TERMINAL, JobSpec, Reason, State
from store.changes import change, entry, note, told
from store.clock import now
from store.rows import write_down
from store.tables import EventRow, Job

CANCEL: Final = "cancel"
PAUSE: Final = "pause"

DEFAULT_QUEUE: Final = "default"
"""Every worker serves it, unless it was told which queues to serve."""

# Made once: to put a statement together takes as long as to carry it out.
_BY_ID: Final = select(Job).where(Job.id == bindparam("job_id"))
_ROWS_BY_ID: Final = select(Job.__table__).where(Job.id.in_(bindparam("job_ids", expanding=True)))
_SEQ: Final = select(Job.project, Job.seq).where(Job.id == bindparam("job_id"))
# A message goes out next; where it does not, the reconciler sends it.
_NEW: Final = (
    insert(Job).values(woken_at=now()).returning(Job.__table__, sort_by_parameter_order=True)
)


@dataclass(frozen=True)
class Origin:
    """Who posts a job, and in which request."""

    project: str
    created_by: str | None = None
    request_id: str | None = None
    cloned_from: str | None = None


def create(session: Session, spec: JobSpec, origin: Origin) -> Row[Any]:
    """Write down a new job; it is queued from here on. Returns a row as those of `glance`."""
    [job] = create_all(session, [(spec, origin)])
    return job


def create_all(session: Session, new: Sequence[tuple[JobSpec, Origin]]) -> Sequence[Row[Any]]:
    """Write down new jobs; in a statement for all of them, and another for their events."""
    values = [_values(spec, origin) for spec, origin in new]
    made = session.connection().execute(_NEW, values).all()
    write_down(session, EventRow, *(entry(job, EventType.STATE, told(job)) for job in made))
    return made


def _values(spec: JobSpec, origin: Origin) -> dict[str, Any]:
    return {
        **vars(origin),
        "name": spec.name,
        "policy": spec.precision.policy,
        "model": spec.model.kind,
        "labels": spec.labels,
        "spec": spec.to_json(),
        "priority": spec.runtime.priority,
        "queue": queue_of(spec),
        "max_attempts": spec.runtime.max_attempts,
        "seq": 1,
    }


def queue_of(spec: JobSpec) -> str:
    """The queue whose workers can run a job: the one it names, else that of its device."""
    runtime = spec.runtime
    return runtime.queue or (DEFAULT_QUEUE if runtime.device == "auto" else runtime.device)


def get(session: Session, job_id: str, *, project: str | None = None) -> Job | None:
    """The job of that id; only in that project, if one is named."""
    options = {"populate_existing": True}
    job = session.scalars(_BY_ID, {"job_id": job_id}, execution_options=options).one_or_none()
    return job if job is not None and project in (None, job.project) else None


def glance(connection: Connection, job_ids: Collection[str]) -> Sequence[Row[Any]]:
    """The jobs of those ids, for who only looks: rows of the same names in half the time."""
    return connection.execute(_ROWS_BY_ID, {"job_ids": list(job_ids)}).all()


def project_of(session: Session, job_id: str) -> str | None:
    """The project of a job; None when there is no such job."""
    return session.scalar(select(Job.project).where(Job.id == job_id))


def project_and_seq(session: Session, job_id: str) -> tuple[str | None, int]:
    """Whose job it is, and how far its story goes; None and 0 when there is no such job."""
    row = session.connection().execute(_SEQ, {"job_id": job_id}).one_or_none()
    return (row.project, row.seq) if row is not None else (None, 0)


def seq_and_state(session: Session, job_id: str) -> tuple[int, str] | None:
    """How far a job's story goes, and its state; None when there is no such job."""
    row = session.execute(select(Job.seq, Job.state).where(Job.id == job_id)).one_or_none()
    return (row.seq, row.state) if row is not None else None


def edit(session: Session, job_id: str, changes: Mapping[str, Any]) -> Job | None:
    """Give a job another `name`, `labels` or `priority`; None when there is no such job."""
    if not changes:
        return get(session, job_id)
    statement = (
        update(Job)
        .where(Job.id == job_id)
        .values(**changes, seq=Job.seq + 1, updated_at=now(), edited_at=now())
        .returning(Job)
        .execution_options(populate_existing=True, synchronize_session=False)
    )
    job = session.scalars(statement).one_or_none()
    if job is not None:
        note(session, job, EventType.EDITED, dict(changes))
    return job


def remove(session: Session, job_id: str) -> bool:
    """Delete a job that has ended, with all that was told of it; False when it has not."""
    statement = (
        delete(Job)
        .where(Job.id == job_id, Job.state.in_(TERMINAL))
        .returning(Job.id)
        .execution_options(synchronize_session=False)
    )
    return session.scalars(statement).one_or_none() is not None


def request_cancel(session: Session, job_id: str) -> Job | None:
    """Cancel: a waiting job at once, a running one by asking its worker.

    Returns the job as it now is; None when there is no such job or it has ended otherwise.
    """
    if job := _locked(session, job_id):
        if job.state in (State.CANCELLED, State.STOPPING):
            return job
        waiting = change(
            session,
            job_id,
            State.CANCELLED,
            Job.state.in_([State.QUEUED, State.PAUSED]),
            reason=Reason.USER_REQUEST,
            message="Cancelled on request while no worker had it.",
            finished_at=now(),
        )
        return waiting or change(session, job_id, State.STOPPING, requested=CANCEL)
    return None


def request_pause(session: Session, job_id: str) -> Job | None:
    """Pause: a waiting job at once, a running one by asking its worker to save and stop it.

    Returns the job as it now is; None when there is no such job or its state does not allow it.
    """
    if job := _locked(session, job_id):
        if job.state in (State.PAUSED, State.PAUSING):
            return job
        waiting = change(
            session,
            job_id,
            State.PAUSED,
            Job.state == State.QUEUED,
            reason=Reason.USER_REQUEST,
            message="Paused on request. Resume it to put it into the queue again.",
        )
        return waiting or change(session, job_id, State.PAUSING, requested=PAUSE)
    return None


def resume(session: Session, job_id: str) -> Job | None:
    """Put a paused job into the queue again; it goes on from its checkpoint.

    Returns the job as it now is; None when there is no such job or it is not paused.
    """
    return _queue_again(session, job_id, State.PAUSED)


def retry(session: Session, job_id: str) -> Job | None:
    """Put a failed or cancelled job into the queue again, with all its attempts before it.

    It goes on from its last checkpoint, from the beginning where there is none. Returns the job
    as it now is; None when there is no such job or it did not end so.
    """
    return _queue_again(session, job_id, State.FAILED, State.CANCELLED, failures=0)


def _queue_again(session: Session, job_id: str, *states: State, **values: Any) -> Job | None:
    return change(
        session,
        job_id,
        State.QUEUED,
        Job.state.in_(states),
        reason=None,
        message=None,
        finished_at=None,
        not_before=None,
        queued_at=now(),
        woken_at=now(),
        **values,
    )


def _locked(session: Session, job_id: str) -> Job | None:
    """The job, so that of two requests at one time the second sees what the first has done."""
    statement = select(Job).where(Job.id == job_id).with_for_update()
    return session.scalars(statement.execution_options(populate_existing=True)).one_or_none()

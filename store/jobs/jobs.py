"""Operations on jobs by users: create, read, edit, cancel, pause, resume, retry, delete."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Row,
    Select,
    String,
    bindparam,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from ampspec.jobs import ACTIVE, TERMINAL, JobSpec, Reason, State
from ampspec.telemetry import EventType
from store.clock import from_now, now
from store.jobs.state_transitions import add_event, change_state, event_values, state_event_data
from store.models.job_references import is_registered, release_jobs
from store.rows import insert_rows
from store.scheduling import fair_share
from store.scheduling.gang_placement import GangSize
from store.tables import Allocation, EventRow, Gang, Job, new_id

CANCEL: Final = "cancel"
PAUSE: Final = "pause"
PROFILE: Final = "profile"

DEFAULT_QUEUE: Final = "default"
"""The queue that every worker serves by default."""

# Built once: building a statement takes as long as executing it.
_NOT_IN_TRASH: Final = Job.purge_at.is_(None)
_BY_ID: Final = select(Job).where(Job.id == bindparam("job_id"), _NOT_IN_TRASH)
_ROWS_BY_ID: Final = select(Job.__table__).where(
    Job.id.in_(bindparam("job_ids", expanding=True)), _NOT_IN_TRASH
)
# As text: a damaged row may hold anything there.
_VERSIONS: Final = select(
    *(Job.id, Job.seq, Job.state, Job.activity),
    cast(Job.uploading, String).label("uploading"),
).where(Job.id.in_(bindparam("job_ids", expanding=True)), _NOT_IN_TRASH)
_SEQ: Final = select(Job.project, Job.seq).where(Job.id == bindparam("job_id"), _NOT_IN_TRASH)
# A message is sent after the commit; if that fails, the reconciler sends it.
_INSERT: Final = (
    insert(Job)
    .values(dispatched_at=now(), turn_at=from_now(bindparam("turn_s", type_=Float)))
    .returning(Job.__table__, sort_by_parameter_order=True)
)


@dataclass(frozen=True)
class Origin:
    """Who submits a job, in which request, and which job it clones, extends or explains."""

    project: str
    created_by: str | None = None
    request_id: str | None = None
    cloned_from: str | None = None
    extends: str | None = None
    explains: str | None = None
    explain_step: int | None = None
    trace_context: str | None = None

    @property
    def needed_job(self) -> str | None:
        """The job whose checkpoints it needs; None without one."""
        return self.extends or self.explains


def create(session: Session, spec: JobSpec, origin: Origin) -> Row[Any]:
    """Insert a queued job. Returns a row as `get_rows` does."""
    [job] = create_all(session, [(spec, origin)])
    return job


def create_all(session: Session, new: Sequence[tuple[JobSpec, Origin]]) -> Sequence[Row[Any]]:
    """Insert queued jobs: one statement for the jobs, and one for their events.

    Ascending ids keep the order of those that have the same time of creation.
    """
    ids = sorted(new_id() for _ in new)
    values = [
        {"id": job_id, **_new_job_values(spec, origin)}
        for job_id, (spec, origin) in zip(ids, new, strict=True)
    ]
    rows = session.connection().execute(_INSERT, values).all()
    insert_rows(
        session,
        EventRow,
        *(event_values(row, EventType.STATE, state_event_data(row)) for row in rows),
    )
    sizes = [(row, GangSize.of_spec(spec)) for row, (spec, _) in zip(rows, new, strict=True)]
    gangs = [{"job_id": job.id, **vars(size)} for job, size in sizes if size is not None]
    if gangs:
        insert_rows(session, Gang, *gangs)
    return rows


def _new_job_values(spec: JobSpec, origin: Origin) -> dict[str, Any]:
    return {
        **vars(origin),
        "name": spec.name,
        "policy": spec.precision.policy,
        "model": spec.model.kind,
        "labels": spec.labels,
        "spec": spec.to_json(),
        "priority": spec.runtime.priority,
        "turn_s": -fair_share.POINT_S * spec.runtime.priority,
        "queue": queue_of(spec),
        "max_attempts": spec.runtime.max_attempts,
        "ranks": size.max_ranks if (size := GangSize.of_spec(spec)) is not None else 1,
        "seq": 1,
    }


def queue_of(spec: JobSpec) -> str:
    """The queue of a job: the one in its spec, else that of its device; see `package_queue`."""
    runtime = spec.runtime
    queue = runtime.queue or (DEFAULT_QUEUE if runtime.device == "auto" else runtime.device)
    return package_queue(queue, spec.package) if spec.package is not None else queue


def package_queue(queue: str, package: str) -> str:
    """The queue of the jobs that need an installed package: only workers that have it serve it.

    The name of no other queue has a slash.
    """
    return f"{queue}/{package}"


def get(session: Session, job_id: str, *, project: str | None = None) -> Job | None:
    """The job with that id, in that project if one is given; None if there is none."""
    options = {"populate_existing": True}
    job = session.scalars(_BY_ID, {"job_id": job_id}, execution_options=options).one_or_none()
    return job if job is not None and project in (None, job.project) else None


def get_rows(connection: Connection, job_ids: Collection[str]) -> Sequence[Row[Any]]:
    """The jobs with those ids as plain rows, which takes half the time of ORM objects."""
    return connection.execute(_ROWS_BY_ID, {"job_ids": list(job_ids)}).all()


def versions(connection: Connection, job_ids: Collection[str]) -> Sequence[Any]:
    """What tells whether these jobs have changed: id, seq, state, activity and uploading."""
    return connection.execute(_VERSIONS, {"job_ids": list(job_ids)}).all()


def project_of(session: Session, job_id: str) -> str | None:
    """The project of a job; None if there is no such job."""
    return session.scalar(select(Job.project).where(Job.id == job_id, _NOT_IN_TRASH))


def project_and_seq(session: Session, job_id: str) -> tuple[str | None, int]:
    """The project of a job and its last seq; None and 0 if there is no such job."""
    row = session.connection().execute(_SEQ, {"job_id": job_id}).one_or_none()
    return (row.project, row.seq) if row is not None else (None, 0)


def seq_and_state(session: Session, job_id: str) -> tuple[int, str] | None:
    """The last seq of a job, and its state; None if there is no such job."""
    statement = select(Job.seq, Job.state).where(Job.id == job_id, _NOT_IN_TRASH)
    row = session.execute(statement).one_or_none()
    return (row.seq, row.state) if row is not None else None


def edit(session: Session, job_id: str, changes: Mapping[str, Any]) -> Job | None:
    """Change the `name`, `labels` or `priority` of a job; None if there is no such job."""
    if not changes:
        return get(session, job_id)
    statement = (
        update(Job)
        .where(Job.id == job_id, _NOT_IN_TRASH)
        .values(**changes, seq=Job.seq + 1, updated_at=now(), changed_at=now(), edited_at=now())
        .returning(Job)
        .execution_options(populate_existing=True, synchronize_session=False)
    )
    job = session.scalars(statement).one_or_none()
    if job is not None:
        if "priority" in changes:
            job.turn_at = fair_share.turn_at(job.created_at, job.priority)
            session.flush()
        add_event(session, job, EventType.EDITED, dict(changes))
    return job


def delete_job(session: Session, job_id: str) -> bool:
    """Delete a finished job with its telemetry; one in the trash, too.

    False if it is not finished, if an unfinished job needs it, if a version of a model was made
    from it, or if it does not exist.
    """
    # Waits for an extension that is being submitted, or a version that is being registered.
    session.execute(select(Job.id).where(Job.id == job_id).with_for_update())
    is_deletable = (
        Job.id == job_id,
        Job.state.in_(TERMINAL),
        ~is_needed(job_id),
        ~is_registered(job_id),
    )
    if session.scalar(select(Job.id).where(*is_deletable)) is None:
        return False
    release_jobs(session, [job_id])
    statement = (
        delete(Job)
        .where(*is_deletable)
        .returning(Job.id)
        .execution_options(synchronize_session=False)
    )
    if session.scalars(statement).one_or_none() is None:
        return False
    delete_ended_allocations(session, [job_id])
    return True


def delete_ended_allocations(session: Session, job_ids: Collection[str]) -> None:
    """Delete the allocations of deleted jobs, except those that the scheduler still has to end."""
    session.execute(
        delete(Allocation)
        .where(Allocation.job_id.in_(job_ids), Allocation.ended_at.is_not(None))
        .execution_options(synchronize_session=False)
    )


def lock_needed(session: Session, ids: Collection[str]) -> set[str]:
    """Lock jobs against deletion until the transaction ends; returns those that exist."""
    statement = select(Job.id).where(Job.id.in_(ids), _NOT_IN_TRASH).order_by(Job.id)
    return set(session.scalars(statement.with_for_update(read=True, key_share=True)))


def unfinished_user(session: Session, job_id: str) -> str | None:
    """The id of an unfinished job that extends or explains this one, and may need a checkpoint."""
    return session.scalar(_users(job_id).limit(1))


def explanations(session: Session, job_id: str, *, step: int | None, limit: int) -> Sequence[Job]:
    """The newest jobs that explain a step of this one, or any step."""
    statement = select(Job).where(Job.explains == job_id, _NOT_IN_TRASH)
    if step is not None:
        statement = statement.where(Job.explain_step == step)
    order = (Job.created_at.desc(), Job.id.desc())
    return session.scalars(statement.order_by(*order).limit(limit)).all()


def request_cancel(session: Session, job_id: str) -> Job | None:
    """Cancel a queued job at once, or request it from the worker of a running one.

    Returns the updated job; None if there is no such job or it has ended otherwise.
    """
    if job := _get_for_update(session, job_id):
        if job.state in (State.CANCELLED, State.STOPPING):
            return job
        cancelled_job = change_state(
            session,
            job_id,
            State.CANCELLED,
            Job.state.in_([State.QUEUED, State.PAUSED]),
            reason=Reason.USER_REQUEST,
            message="Cancelled on request; no worker was running it.",
            finished_at=now(),
        )
        return cancelled_job or change_state(session, job_id, State.STOPPING, requested=CANCEL)
    return None


def request_pause(session: Session, job_id: str) -> Job | None:
    """Pause a queued job at once, or request a checkpoint and stop from a running one's worker.

    Returns the updated job; None if there is no such job or its state does not allow it.
    """
    if job := _get_for_update(session, job_id):
        if job.state in (State.PAUSED, State.PAUSING):
            return job
        paused_job = change_state(
            session,
            job_id,
            State.PAUSED,
            Job.state == State.QUEUED,
            reason=Reason.USER_REQUEST,
            message="Paused on request. Resume it to queue it again.",
        )
        return paused_job or change_state(session, job_id, State.PAUSING, requested=PAUSE)
    return None


def show_uploading(session: Session, job_id: str, attempt: int, uploading: dict[str, Any]) -> None:
    """Show how far the uploads of an attempt are that has ended its training."""
    session.execute(
        update(Job)
        .where(Job.id == job_id, Job.attempt == attempt, Job.state.in_(ACTIVE))
        .values(uploading=uploading, updated_at=now())
        .execution_options(synchronize_session=False)
    )


def show_activity(session: Session, job_id: str, attempt: int, activity: str | None) -> None:
    """Show what an attempt does from now on; None: it is not known."""
    session.execute(
        update(Job)
        .where(Job.id == job_id, Job.attempt == attempt, Job.state.in_(ACTIVE))
        .values(activity=activity, activity_since=now(), updated_at=now())
        .execution_options(synchronize_session=False)
    )


def request_profile(session: Session, job_id: str, *, steps: int) -> Job | None:
    """Request a profile of the next steps from a running job's worker.

    A second request replaces one that the worker has not read yet. Returns the updated job; None
    if there is no such job or it is not running.
    """
    # The random part tells two requests for the same number of steps apart. It has three
    # characters: the column has room for 16, also for those of 1,000 steps.
    requested = f"{PROFILE}:{steps}:{secrets.token_urlsafe(2)}"
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.state == State.RUNNING)
        .values(requested=requested, updated_at=now())
        .returning(Job)
        .execution_options(populate_existing=True, synchronize_session=False)
    )
    return session.scalars(statement).one_or_none()


def profile_steps(requested: str | None) -> int | None:
    """The number of steps that `request_profile` asked for; None for another request."""
    name, _, arguments = (requested or "").partition(":")
    return int(arguments.partition(":")[0]) if name == PROFILE else None


def resume(session: Session, job_id: str) -> Job | None:
    """Queue a paused job again; it continues from its checkpoint.

    Returns the updated job; None if there is no such job or it is not paused.
    """
    return _requeue(session, job_id, State.PAUSED)


def retry(session: Session, job_id: str) -> Job | None:
    """Queue a failed or cancelled job again, with all of its `max_attempts`.

    It continues from its last checkpoint, or starts again if there is none. Returns the updated
    job; None if there is no such job or it is not failed or cancelled.
    """
    return _requeue(session, job_id, State.FAILED, State.CANCELLED, failures=0)


def _users(job_id: str | InstrumentedAttribute[str]) -> Select[str]:
    user = aliased(Job)
    return select(user.id).where(
        or_(user.extends == job_id, user.explains == job_id), user.state.not_in(TERMINAL)
    )


def is_needed(job_id: str | InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Whether an unfinished job extends or explains the job, and may need a checkpoint of it."""
    return _users(job_id).correlate(Job).exists()


def _requeue(session: Session, job_id: str, *states: State, **values: Any) -> Job | None:
    return change_state(
        session,
        job_id,
        State.QUEUED,
        Job.state.in_(states),
        _NOT_IN_TRASH,
        reason=None,
        message=None,
        finished_at=None,
        not_before=None,
        queued_at=now(),
        turn_at=func.coalesce(Job.turn_at, now()),
        dispatched_at=now(),
        **values,
    )


def _get_for_update(session: Session, job_id: str) -> Job | None:
    """The job, locked: of two concurrent requests the second sees the change of the first."""
    statement = select(Job).where(Job.id == job_id, _NOT_IN_TRASH).with_for_update()
    return session.scalars(statement.execution_options(populate_existing=True)).one_or_none()

"""Studies and the jobs that they need: create, list, lock, record results, finish."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row, Select, and_, delete, func, or_, select, update
from sqlalchemy.orm import Session

from ampspec.jobs import TERMINAL, State
from ampspec.notifications.messages import study_message
from ampspec.notifications.types import NotificationType
from store.access.projects import QuotaReached
from store.clock import now, seconds_since
from store.jobs import jobs
from store.notifications import outbox
from store.notifications.outbox import Notice
from store.rows import insert_rows
from store.tables import Job, Project, Study, StudyJob

RUNNING: Final = "running"
STOPPING: Final = "stopping"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
UNFINISHED: Final = (RUNNING, STOPPING)

MAX_UNFINISHED: Final = 50
"""Studies of a project that run or stop at one time: each is planned again and again."""
ESTIMATED_FROM: Final = 50
"""The newest jobs of a project that an estimate is made from."""

_JOBS: Final = (
    select(
        StudyJob.key,
        StudyJob.changes,
        StudyJob.job_id,
        StudyJob.result,
        Job.state,
        Job.reason,
        Job.message,
        Job.step,
        Job.total_steps,
        Job.metrics,
        Job.totals,
        Job.latest,
        Job.summary,
        seconds_since(Job.started_at, Job.finished_at).label("ran_s"),
    )
    .join(Job, and_(Job.id == StudyJob.job_id, Job.purge_at.is_(None)), isouter=True)
    .order_by(StudyJob.number)
)


def create(session: Session, **values: Any) -> Study:
    """Insert a running study. Raises QuotaReached."""
    _check_quota(session, values["project"])
    study = Study(**values)
    session.add(study)
    session.flush()
    return study


def _check_quota(session: Session, project: str) -> None:
    # Locked, so that of two concurrent requests the second one counts the study of the first.
    session.scalar(
        select(Project.name).where(Project.name == project).with_for_update(key_share=True)
    )
    unfinished_studies = select(func.count()).where(
        Study.project == project, Study.state.in_(UNFINISHED)
    )
    if (session.scalar(unfinished_studies) or 0) >= MAX_UNFINISHED:
        raise QuotaReached(
            f"The project {project!r} has reached its quota of {MAX_UNFINISHED} studies that have "
            "not ended. Try again when one of them has."
        )


def get(session: Session, study_id: str, *, project: str | None = None) -> Study | None:
    """The study with that id, in that project if one is given; None if there is none."""
    study = session.get(Study, study_id, populate_existing=True)
    return study if study is not None and project in (None, study.project) else None


def unfinished(session: Session) -> Sequence[str]:
    """The ids of the studies that run or stop, the oldest first."""
    statement = select(Study.id).where(Study.state.in_(UNFINISHED))
    return session.scalars(statement.order_by(Study.created_at, Study.id)).all()


def with_ended_jobs(session: Session) -> Sequence[str]:
    """The ids of unfinished studies with a job that has ended and is not recorded yet."""
    has_ended = (
        select(StudyJob.study_id)
        .join(Job, Job.id == StudyJob.job_id)
        .where(StudyJob.study_id == Study.id, StudyJob.result.is_(None), Job.state.in_(TERMINAL))
        .exists()
    )
    statement = select(Study.id).where(Study.state.in_(UNFINISHED), has_ended)
    return session.scalars(statement.order_by(Study.created_at, Study.id)).all()


def lock(session: Session, study_id: str, *, wait: bool) -> Study | None:
    """The study, locked until the transaction ends.

    None if it has ended, if it does not exist, or, unless `wait`, if another transaction has
    locked it. Every change of a study and of its jobs' rows is made under this lock.
    """
    statement = (
        select(Study)
        .where(Study.id == study_id, Study.state.in_(UNFINISHED))
        .with_for_update(skip_locked=not wait)
        .execution_options(populate_existing=True)
    )
    return session.scalars(statement).one_or_none()


def page(
    session: Session,
    project: str | None,
    *,
    position: tuple[datetime, str] | None = None,
    limit: int,
) -> Sequence[Row[Any]]:
    """At most `limit` studies with `jobs_planned` and `jobs_ended`, the newest first.

    `position` is the creation time and the id of the last study of the page before.
    """
    counts = (
        select(
            StudyJob.study_id,
            func.count().label("jobs_planned"),
            func.count(StudyJob.result).label("jobs_ended"),
        )
        .group_by(StudyJob.study_id)
        .subquery()
    )
    statement: Select[Any] = (
        select(
            *(column for column in Study.__table__.columns if column.name not in _LARGE),
            func.coalesce(counts.c.jobs_planned, 0).label("jobs_planned"),
            func.coalesce(counts.c.jobs_ended, 0).label("jobs_ended"),
        )
        .join(counts, counts.c.study_id == Study.id, isouter=True)
        .order_by(Study.created_at.desc(), Study.id.desc())
        .limit(limit)
    )
    if project is not None:
        statement = statement.where(Study.project == project)
    if position is not None:
        at, study_id = position
        earlier = and_(Study.created_at == at, Study.id < study_id)
        statement = statement.where(or_(Study.created_at < at, earlier))
    return session.execute(statement).all()


_LARGE: Final = ("spec", "answer", "options", "facts", "policies")


def jobs_of(session: Session, study_id: str) -> Sequence[Row[Any]]:
    """The jobs of a study in order, with their results and the state of each that exists."""
    rows: Sequence[Row[Any]] = session.execute(_JOBS.where(StudyJob.study_id == study_id)).all()
    return rows


def add_jobs(session: Session, study_id: str, planned: Mapping[str, Mapping[str, Any]]) -> None:
    """Insert the planned jobs that are not there yet: their changes by key, in order."""
    existing_keys = set(session.scalars(select(StudyJob.key).where(StudyJob.study_id == study_id)))
    new = [(key, changes) for key, changes in planned.items() if key not in existing_keys]
    if new:
        insert_rows(
            session,
            StudyJob,
            *(
                {"study_id": study_id, "key": key, "number": number, "changes": dict(changes)}
                for number, (key, changes) in enumerate(new, start=len(existing_keys))
            ),
        )


def set_job(session: Session, study_id: str, key: str, job_id: str) -> None:
    """Record the job that was queued for a key."""
    _update_job(session, study_id, key, job_id=job_id)


def set_result(session: Session, study_id: str, key: str, result: Mapping[str, Any]) -> None:
    """Record how the job of a key ended."""
    _update_job(session, study_id, key, result=dict(result))


def set_state(session: Session, study: Study, state: str, **values: Any) -> None:
    """Change the state of a locked study, and other columns with it."""
    is_end = state not in UNFINISHED
    end_values = {"finished_at": now()} if is_end else {}
    session.execute(
        update(Study)
        .where(Study.id == study.id)
        .values(state=state, updated_at=now(), **end_values, **values)
        .execution_options(synchronize_session=False)
    )
    if is_end:
        message = values.get("message", study.message if state != SUCCEEDED else None)
        notification = NotificationType(f"study.{state}")
        content = study_message(notification, study.id, study.kind, study.name, message)
        outbox.publish(session, Notice(content, f"{notification} {study.id}", study.project))


def delete_study(session: Session, study_id: str) -> bool:
    """Delete a study that has ended, with its answer; its jobs stay.

    False if it has not ended, or does not exist.
    """
    conditions = (Study.id == study_id, Study.state.not_in(UNFINISHED))
    statement = delete(Study).where(*conditions).returning(Study.id)
    options = {"synchronize_session": False}
    return session.scalars(statement, execution_options=options).one_or_none() is not None


def cancel_jobs(session: Session, study_id: str) -> list[str]:
    """Cancel the jobs of a study that have not ended; returns their ids."""
    statement = (
        select(Job.id)
        .join(StudyJob, StudyJob.job_id == Job.id)
        .where(
            StudyJob.study_id == study_id,
            Job.state.not_in([*TERMINAL, State.STOPPING]),
        )
        .order_by(Job.id)
    )
    job_ids = list(session.scalars(statement))
    for job_id in job_ids:
        jobs.request_cancel(session, job_id)
    return job_ids


def similar_jobs(session: Session, project: str, model: str) -> Sequence[Row[Any]]:
    """The newest jobs of a project that succeeded with a kind of model."""
    statement = (
        select(Job.spec, Job.policy, Job.resolved_policy, Job.totals, Job.summary, Job.total_steps)
        .where(Job.project == project, Job.state == State.SUCCEEDED, Job.model == model)
        .order_by(Job.created_at.desc(), Job.id.desc())
        .limit(ESTIMATED_FROM)
    )
    return session.execute(statement).all()


def answers(session: Session, project: str, kind: str) -> Sequence[Row[Any]]:
    """The spec and the answer of the newest studies of a kind that succeeded."""
    statement = (
        select(Study.spec, Study.answer)
        .where(Study.project == project, Study.kind == kind, Study.state == SUCCEEDED)
        .order_by(Study.created_at.desc(), Study.id.desc())
        .limit(ESTIMATED_FROM)
    )
    return session.execute(statement).all()


def _update_job(session: Session, study_id: str, key: str, **values: Any) -> None:
    session.execute(
        update(StudyJob)
        .where(StudyJob.study_id == study_id, StudyJob.key == key)
        .values(**values)
        .execution_options(synchronize_session=False)
    )

"""The trash: deleted jobs, which can be restored until they are deleted with all that they have.

Only ended jobs that nothing needs are there. Whatever finds jobs by id or in lists leaves them out
(`not_in_trash`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from ampspec.jobs import TERMINAL
from store.clock import from_now, now
from store.files import file_removals
from store.jobs.jobs import delete_job, is_needed
from store.models.job_references import is_registered
from store.tables import Job


@dataclass(frozen=True)
class TrashedJob:
    """A job in the trash, and when it is deleted."""

    id: str
    project: str
    purge_at: datetime


def move(session: Session, job_id: str, keep_s: float) -> bool:
    """Put an ended job into the trash for `keep_s` seconds; with 0 delete it at once.

    False if it has not ended, if an unfinished job needs it, if a version of a model was made from
    it, or if it does not exist, or not any more.
    """
    if keep_s <= 0:
        return delete_job(session, job_id)
    # Waits for an extension that is being submitted, or a version that is being registered.
    session.execute(select(Job.id).where(Job.id == job_id).with_for_update())
    return bool(move_all(session, [job_id], keep_s))


def move_all(session: Session, job_ids: Collection[str], keep_s: float) -> set[str]:
    """Put jobs that the caller has locked into the trash; returns those that may be deleted."""
    statement = (
        update(Job)
        .where(
            Job.id.in_(job_ids),
            Job.state.in_(TERMINAL),
            Job.purge_at.is_(None),
            ~is_needed(Job.id),
            ~is_registered(Job.id),
        )
        .values(purge_at=from_now(keep_s))
        .returning(Job.id)
        .execution_options(synchronize_session=False)
    )
    return set(session.scalars(statement))


def find(session: Session, job_id: str) -> TrashedJob | None:
    """The job if it is in the trash, or None."""
    statement = select(Job.project, Job.purge_at).where(Job.id == job_id)
    row = session.execute(statement).one_or_none()
    if row is None or row.purge_at is None:
        return None
    return TrashedJob(job_id, row.project, row.purge_at)


def restore(session: Session, job_id: str) -> Job | None:
    """Take a job out of the trash; None if it is not there."""
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.purge_at.is_not(None))
        .values(purge_at=None, updated_at=now(), changed_at=now())
        .returning(Job)
        .execution_options(populate_existing=True, synchronize_session=False)
    )
    return session.scalars(statement).one_or_none()


def due(session: Session, limit: int) -> Sequence[str]:
    """The ids of the jobs whose time in the trash is over, the oldest first."""
    statement = select(Job.id).where(Job.purge_at <= now()).order_by(Job.purge_at, Job.id)
    return session.scalars(statement.limit(limit)).all()


def purge(session: Session, job_id: str) -> bool:
    """Delete a job whose time in the trash is over, and schedule the deletion of its files.

    False if it was restored meanwhile. One that may not be deleted, because a server of an older
    version has used it, is taken out of the trash.
    """
    is_due = select(Job.id).where(Job.id == job_id, Job.purge_at <= now())
    if session.scalar(is_due.with_for_update()) is None:
        return False
    if not delete_job(session, job_id):
        restore(session, job_id)
        return False
    file_removals.schedule_in_background(session, job_id)
    return True


def take_out_unfinished(session: Session) -> None:
    """Take out jobs that a server of an older version, which sees the trash, has queued again."""
    session.execute(
        update(Job)
        .where(Job.purge_at.is_not(None), Job.state.not_in(TERMINAL))
        .values(purge_at=None)
        .execution_options(synchronize_session=False)
    )

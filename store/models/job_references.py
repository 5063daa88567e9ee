"""Which jobs models are made from: those jobs cannot be deleted."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import InstrumentedAttribute

from store.tables import ModelVersion


def is_registered(job_id: str | InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Whether a version that is not deleted was made from the job."""
    return (
        select(ModelVersion.number)
        .where(ModelVersion.job_id == job_id, ModelVersion.deleted_at.is_(None))
        .exists()
    )


def jobs_of_deleted_versions(session: Session, job_ids: Collection[str]) -> set[str]:
    """Those of the jobs that deleted versions were made from."""
    statement = select(ModelVersion.job_id).where(
        ModelVersion.job_id.in_(job_ids), ModelVersion.deleted_at.is_not(None)
    )
    return {job_id for job_id in session.scalars(statement) if job_id is not None}


def release_jobs(session: Session, job_ids: Collection[str]) -> None:
    """Before jobs are deleted: their deleted versions name them no more, so cannot be restored."""
    session.execute(
        update(ModelVersion)
        .where(ModelVersion.job_id.in_(job_ids), ModelVersion.deleted_at.is_not(None))
        .values(job_id=None)
        .execution_options(synchronize_session=False)
    )

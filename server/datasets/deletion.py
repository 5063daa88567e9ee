"""Delete versions of datasets, unless an unfinished job uses them."""

from sqlalchemy.orm import Session

from ampspec.references.dataset_reference import VersionReference
from server.errors import Conflict, NotFound
from store.access import audit
from store.access.audit import Actor
from store.files import datasets, file_removals
from store.files.datasets import STORAGE_FOLDER


def delete_versions(
    session: Session, project: str, reference: VersionReference, actor: Actor
) -> None:
    """Delete a version, or all of them without a number; their files are deleted in the background.

    Raises NotFound, and Conflict if a job that has not ended uses one of them.
    """
    datasets.lock_project(session, project)
    versions = datasets.lock_for_deletion(session, project, reference)
    if not versions:
        raise dataset_not_found(reference)
    numbers = [version.number for version in versions]
    if (job := datasets.unfinished_job(session, project, reference.name, numbers)) is not None:
        job_id, job_name, used_version = job
        raise Conflict(
            f"Cannot delete {used_version}: the job {job_name!r} ({job_id}), which has not ended, "
            "uses it. Wait for its end, or cancel it."
        )
    paths = datasets.delete_versions(session, versions)
    audit.record(
        session, actor, "dataset.delete", str(reference), project=project, versions=numbers
    )
    file_removals.schedule_in_background(session, STORAGE_FOLDER, paths)


def dataset_not_found(reference: VersionReference) -> NotFound:
    """The error for a dataset or version that does not exist, or is of another project."""
    return NotFound(f"There is no dataset {str(reference)[:80]!r}.")

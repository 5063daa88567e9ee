"""Delete a file of a project, unless a job names it."""

from typing import Final

from sqlalchemy.orm import Session

from ampspec.documents.text import plural
from ampspec.references.stored_files import DIGEST_PREFIX
from server.errors import Conflict, NotFound
from store.access import audit
from store.access.audit import Actor
from store.files import file_removals, project_files
from store.files.project_files import STORAGE_FOLDER, FileKey

MAX_NAMED: Final = 5
"""Of the jobs that name the file, in the message."""


def delete_file(session: Session, key: FileKey, actor: Actor) -> None:
    """Delete the row of a file; its content is deleted in the background.

    Raises NotFound, and Conflict if a job names it, also one that has ended: it may be retried,
    cloned or extended.
    """
    if not project_files.lock_for_deletion(session, key):
        raise file_not_found(key)
    if jobs := project_files.jobs_naming(session, [key], limit=MAX_NAMED).get(key, []):
        count = jobs[0].job_count
        states = ["in the trash" if job.purge_at is not None else job.state for job in jobs]
        listed = ", ".join(
            f"{job.name!r} ({job.id}, {state})" for job, state in zip(jobs, states, strict=True)
        )
        remedy = "Delete those jobs first."
        if "in the trash" in states:
            remedy = (
                "Delete those jobs first, and those in the trash with `ampctl job delete ID "
                "--permanent`; after their time in the trash the file is free, too."
            )
        more = f" and {count - len(jobs)} more" if count > len(jobs) else ""
        raise Conflict(
            f"Cannot delete the {key.kind} {DIGEST_PREFIX}{key.sha256}: {plural(count, 'job')} "
            f"{'names' if count == 1 else 'name'} it: {listed}{more}. {remedy}"
        )
    path = project_files.remove(session, key)
    audit.record(session, actor, "file.delete", key.sha256, project=key.project, kind=key.kind)
    file_removals.schedule_in_background(session, STORAGE_FOLDER, [path])


def file_not_found(key: FileKey) -> NotFound:
    """The error for a file that the project does not have."""
    return NotFound(f"The project has no {key.kind} with the SHA-256 {key.sha256}.")

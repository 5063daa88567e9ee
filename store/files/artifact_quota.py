"""The bytes of the artifacts of each project, and its quota of them.

Triggers keep the number in the transaction that inserts, replaces or deletes rows of artifacts
(migration 0026), so that it is exact, whichever version of the program writes them.
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from store.rows import insert_if_absent
from store.tables import Job, Project, ProjectStorage

_USE: Final = (
    select(Project.max_artifact_bytes, func.coalesce(ProjectStorage.artifact_bytes, 0))
    .outerjoin(ProjectStorage, ProjectStorage.project == Project.name)
    .where(Project.name == bindparam("name"))
)


class ArtifactQuotaReached(Exception):
    """The project may not store that many more bytes of artifacts."""


def stored_bytes(session: Session) -> Mapping[str, int]:
    """The bytes of the artifacts of each project that has any."""
    statement = select(ProjectStorage.project, ProjectStorage.artifact_bytes)
    return {row.project: row.artifact_bytes for row in session.execute(statement)}


def has_room(session: Session, project: str) -> bool:
    """Whether the project may store more: the artifacts take less than its quota."""
    quota, used = _use(session, project)
    return quota is None or used < quota


def check_new_jobs(session: Session, project: str) -> None:
    """Raise ArtifactQuotaReached if a new job of the project could not store anything."""
    quota, used = _use(session, project)
    if quota is not None and used >= quota:
        raise ArtifactQuotaReached(
            f"The project {project!r} has a quota of {quota:,} bytes for the artifacts of its "
            f"jobs, and {used:,} are used. Delete old jobs for good (`ampctl job delete ID "
            "--permanent`; those in the trash count), or ask an admin for more (`ampctl project "
            "set --max-artifact-bytes`)."
        )


def check_more(session: Session, job_id: str, more_bytes: int) -> None:
    """Raise ArtifactQuotaReached if the job's project may not store that many more bytes.

    With a quota the counter stays locked until the transaction ends, so that of two jobs that store
    a file at once, the second one counts the file of the first. What replaces as many bytes is
    always allowed.
    """
    if more_bytes <= 0:
        return
    project = session.scalar(select(Job.project).where(Job.id == job_id))
    if project is None or _use(session, project)[0] is None:
        return
    session.execute(insert_if_absent(session, ProjectStorage, project=project, artifact_bytes=0))
    counter = select(ProjectStorage.project).where(ProjectStorage.project == project)
    session.execute(counter.with_for_update())
    quota, used = _use(session, project)
    if quota is not None and used + more_bytes > quota:
        raise ArtifactQuotaReached(
            f"the project {project!r} has a quota of {quota:,} bytes for the artifacts of its "
            f"jobs, {used:,} are used, and this file needs {more_bytes:,} more. Delete old jobs "
            "for good, or ask an admin for more; a retry continues from the last stored checkpoint."
        )


def _use(session: Session, project: str) -> tuple[int | None, int]:
    """The quota of a project and what is used of it, in bytes."""
    row = session.execute(_USE, {"name": project}).one_or_none()
    return (row[0], row[1]) if row is not None else (None, 0)

"""Schedule the deletion of files, in the transaction that deletes their rows.

A file is deleted after the commit, outside any transaction, because that may take long. If the
process dies or the storage is unavailable, the server's background work deletes it later.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from store.clock import after, now
from store.files import datasets, files
from store.tables import Artifact, DatasetVersion, FileRemoval, ProjectFile

OWN_TURN_S: Final = 60.0
"""The scheduling process has this long to delete the files before the background work does."""
RETRY_AFTER_S: Final = 300.0
"""The delay before a failed removal is retried."""
BATCH: Final = 100


@dataclass(frozen=True)
class Removal:
    """A file of a job or of another folder to delete; all of its files if `path` is None."""

    id: int
    job_id: str
    path: str | None


def schedule(session: Session, job_id: str, paths: Collection[str] | None = None) -> list[Removal]:
    """Schedule the deletion of files of a job; of all its files if `paths` is None."""
    return schedule_after(session, OWN_TURN_S, job_id, paths)


def schedule_after(
    session: Session, delay_s: float, job_id: str, paths: Collection[str] | None
) -> list[Removal]:
    """Schedule it for a later time: a file that is recorded by then is kept."""
    rows = [
        FileRemoval(job_id=job_id, path=path, due_at=after(delay_s))
        for path in ([None] if paths is None else paths)
    ]
    session.add_all(rows)
    session.flush()
    return [Removal(row.id, row.job_id, row.path) for row in rows]


def due(session: Session) -> Sequence[Removal]:
    """Removals that are due, the oldest first."""
    statement = (
        select(FileRemoval.id, FileRemoval.job_id, FileRemoval.path)
        .where(FileRemoval.due_at <= now())
        .order_by(FileRemoval.due_at, FileRemoval.id)
        .limit(BATCH)
    )
    return [Removal(*row) for row in session.execute(statement)]


def is_needed(session: Session, removal: Removal) -> bool:
    """Whether the file has been written and recorded again, so that it must be kept."""
    if removal.path is None:
        return False
    if removal.job_id == datasets.STORAGE_FOLDER:
        used = select(DatasetVersion.number).where(DatasetVersion.path == removal.path).limit(1)
        return session.scalar(used) is not None
    if removal.job_id == files.STORAGE_FOLDER:
        own = select(ProjectFile.kind).where(ProjectFile.path == removal.path).limit(1)
        return session.scalar(own) is not None
    return session.get(Artifact, (removal.job_id, removal.path)) is not None


def mark_done(session: Session, removals: Collection[Removal]) -> None:
    """Delete the rows of removals whose files are deleted."""
    ids = [removal.id for removal in removals]
    statement = delete(FileRemoval).where(FileRemoval.id.in_(ids))
    session.execute(statement.execution_options(synchronize_session=False))


def postpone(session: Session, removals: Collection[Removal]) -> None:
    """Postpone failed removals by RETRY_AFTER_S."""
    ids = [removal.id for removal in removals]
    statement = (
        update(FileRemoval).where(FileRemoval.id.in_(ids)).values(due_at=after(RETRY_AFTER_S))
    )
    session.execute(statement.execution_options(synchronize_session=False))

"""Schedule the deletion of files, in the transaction that deletes their rows.

A file is deleted after the commit, outside any transaction, because that may take long: the
storage may even hang. No request waits for it: what a request schedules is deleted by the
server's background work. A worker deletes what it schedules itself; if it dies or the storage is
unavailable, the background work does it later.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from store.clock import from_now, now
from store.files import datasets, project_files
from store.tables import Artifact, DatasetVersion, FileRemoval, ProjectFile

SCHEDULER_TURN_S: Final = 60.0
"""The process that scheduled a removal has this long to do it before the background work does."""
UNRECORDED_REMOVAL_S: Final = 2 * 86_400.0
"""A stored file without a row is deleted by then: the process that stored it has died."""
RETRY_AFTER_S: Final = 300.0
"""The delay before a failed removal is retried."""
BATCH: Final = 100


@dataclass(frozen=True)
class Removal:
    """A file of a folder of the storage to delete; all files of the folder if `path` is None."""

    id: int
    folder: str
    path: str | None


def schedule(session: Session, folder: str, paths: Collection[str] | None = None) -> list[Removal]:
    """Schedule the deletion of files of a folder by the caller; of all its files without `paths`.

    Args:
        session: Of the transaction that deletes the rows of the files.
        folder: The folder of the storage.
        paths: The files below it; None for all.

    Returns:
        What the caller deletes after the commit. The background work does it after
        SCHEDULER_TURN_S, if the caller has not.
    """
    return schedule_after(session, SCHEDULER_TURN_S, folder, paths)


def schedule_in_background(
    session: Session, folder: str, paths: Collection[str] | None = None
) -> None:
    """Schedule the deletion of files of a folder by the background work, within seconds.

    Args:
        session: Of the transaction that deletes the rows of the files.
        folder: The folder of the storage.
        paths: The files below it; None for all.
    """
    schedule_after(session, 0.0, folder, paths)


def schedule_unless_recorded(session: Session, folder: str, path: str) -> list[Removal]:
    """Schedule the deletion of a file that is about to be stored, should it never get its row.

    Args:
        session: Of a transaction that is committed before the file is stored.
        folder: The folder of the storage.
        path: The file below it.

    Returns:
        What the transaction that writes the row may mark as done; otherwise it is cancelled after
        UNRECORDED_REMOVAL_S, when the row is there.
    """
    return schedule_after(session, UNRECORDED_REMOVAL_S, folder, [path])


def schedule_after(
    session: Session, delay_s: float, folder: str, paths: Collection[str] | None
) -> list[Removal]:
    """Schedule a deletion after a delay; a file that is recorded again by then is kept."""
    rows = [
        FileRemoval(folder=folder, path=path, due_at=from_now(delay_s))
        for path in ([None] if paths is None else paths)
    ]
    session.add_all(rows)
    session.flush()
    return [Removal(row.id, row.folder, row.path) for row in rows]


def due(session: Session) -> Sequence[Removal]:
    """Removals that are due, the oldest first."""
    statement = (
        select(FileRemoval.id, FileRemoval.folder, FileRemoval.path)
        .where(FileRemoval.due_at <= now())
        .order_by(FileRemoval.due_at, FileRemoval.id)
        .limit(BATCH)
    )
    return [Removal(*row) for row in session.execute(statement)]


def is_needed(session: Session, removal: Removal) -> bool:
    """Whether the file has been written and recorded again, so that it must be kept."""
    if removal.path is None:
        return False
    if removal.folder == datasets.STORAGE_FOLDER:
        version_row = (
            select(DatasetVersion.number).where(DatasetVersion.path == removal.path).limit(1)
        )
        return session.scalar(version_row) is not None
    if removal.folder == project_files.STORAGE_FOLDER:
        file_row = select(ProjectFile.kind).where(ProjectFile.path == removal.path).limit(1)
        return session.scalar(file_row) is not None
    return session.get(Artifact, (removal.folder, removal.path)) is not None


def mark_done(session: Session, removals: Collection[Removal]) -> None:
    """Delete the rows of removals whose files are deleted."""
    ids = [removal.id for removal in removals]
    statement = delete(FileRemoval).where(FileRemoval.id.in_(ids))
    session.execute(statement.execution_options(synchronize_session=False))


def postpone(session: Session, removals: Collection[Removal]) -> None:
    """Postpone failed removals by RETRY_AFTER_S."""
    ids = [removal.id for removal in removals]
    statement = (
        update(FileRemoval).where(FileRemoval.id.in_(ids)).values(due_at=from_now(RETRY_AFTER_S))
    )
    session.execute(statement.execution_options(synchronize_session=False))

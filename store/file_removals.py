"""Files of jobs that are to be deleted: noted in the transaction that forgets them.

A file is deleted after the commit, outside every transaction, since that may take long. A note that
is still there later, because a process died or the storage was away, is carried out by the server's
background work.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from store.clock import after, now
from store.tables import Artifact, FileRemoval

SOON_S: Final = 60.0
"""Who notes a removal has so long to carry it out before others do."""
AGAIN_S: Final = 300.0
"""A removal that failed is tried again after so long."""
AT_ONCE: Final = 100


@dataclass(frozen=True)
class Removal:
    """What is to be deleted: a file of a job, or where `path` is None all of them."""

    id: int
    job_id: str
    path: str | None


def note(session: Session, job_id: str, paths: Collection[str] | None = None) -> list[Removal]:
    """Note that files of a job are to be deleted; all of them, where no paths are named."""
    rows = [
        FileRemoval(job_id=job_id, path=path, due_at=after(SOON_S))
        for path in ([None] if paths is None else paths)
    ]
    session.add_all(rows)
    session.flush()
    return [Removal(row.id, row.job_id, row.path) for row in rows]


def due(session: Session) -> Sequence[Removal]:
    """Some removals that were not carried out in time, the oldest first."""
    statement = (
        select(FileRemoval.id, FileRemoval.job_id, FileRemoval.path)
        .where(FileRemoval.due_at <= now())
        .order_by(FileRemoval.due_at, FileRemoval.id)
        .limit(AT_ONCE)
    )
    return [Removal(*row) for row in session.execute(statement)]


def is_needed(session: Session, removal: Removal) -> bool:
    """Whether a file that was to be deleted has a row again, so that it must stay."""
    if removal.path is None:
        return False
    return session.get(Artifact, (removal.job_id, removal.path)) is not None


def done(session: Session, removals: Collection[Removal]) -> None:
    """These files are gone."""
    ids = [removal.id for removal in removals]
    statement = delete(FileRemoval).where(FileRemoval.id.in_(ids))
    session.execute(statement.execution_options(synchronize_session=False))


def failed(session: Session, removals: Collection[Removal]) -> None:
    """These files are still there; others are tried first."""
    ids = [removal.id for removal in removals]
    statement = update(FileRemoval).where(FileRemoval.id.in_(ids)).values(due_at=after(AGAIN_S))
    session.execute(statement.execution_options(synchronize_session=False))

"""Uploads of datasets: which bytes have arrived, in which parts, and the result.

A part is a file of its own below the upload's folder of the storage. A request writes its part
first and adds it here afterwards, and only if no other request has added one in the meantime.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from store.clock import from_now, now
from store.files import file_removals
from store.files.datasets import check_quota
from store.tables import DatasetUpload

IDLE_S: Final = 86_400.0
"""An upload expires this long after its last part."""
MAX_LIFETIME_S: Final = 7 * 86_400.0
"""And at the latest this long after its start."""
REMOVAL_AFTER_S: Final = MAX_LIFETIME_S + 86_400.0
"""When every file in the folder of an upload is deleted, whatever happened to the upload."""
MAX_OPEN: Final = 100
"""Unfinished uploads of a project."""
MAX_PARTS: Final = 2000
BATCH: Final = 100


class TooManyUploads(Exception):
    """The project has as many unfinished uploads as allowed."""


@dataclass(frozen=True)
class NewUpload:
    """The file that a client is going to upload, as the client describes it."""

    name: str
    file_name: str
    size_bytes: int
    sha256: str | None = None


def folder_of(upload_id: str) -> str:
    """The folder of the storage with the parts of an upload."""
    return f"upload-{upload_id}"


def start(
    session: Session,
    project: str,
    upload: NewUpload,
    created_by: str | None,
    *,
    reserve: bool = True,
) -> DatasetUpload:
    """Start an upload, and reserve its bytes. Raises StorageQuotaReached and TooManyUploads."""
    check_quota(session, project, upload.size_bytes if reserve else 0)
    upload_count = select(func.count()).where(
        DatasetUpload.project == project, DatasetUpload.number.is_(None)
    )
    if (session.scalar(upload_count) or 0) >= MAX_OPEN:
        raise TooManyUploads(
            f"The project {project!r} has {MAX_OPEN} unfinished uploads, the maximum; finish or "
            "delete one of them."
        )
    row = DatasetUpload(
        project=project,
        created_by=created_by,
        parts=[],
        offset_bytes=0,
        expires_at=from_now(IDLE_S),
        **vars(upload),
    )
    session.add(row)
    session.flush()
    # Deletes also what a server wrote and could not record, because it died.
    file_removals.schedule_after(session, REMOVAL_AFTER_S, folder_of(row.id), None)
    session.refresh(row)
    return row


def unfinished(session: Session, project: str, upload: NewUpload) -> DatasetUpload | None:
    """An upload in progress of the same file, or None; only if the client tells its SHA-256."""
    if upload.sha256 is None:
        return None
    same = select(DatasetUpload).filter_by(project=project, **vars(upload))
    statement = same.where(DatasetUpload.number.is_(None), DatasetUpload.expires_at > now())
    newest = statement.order_by(DatasetUpload.created_at.desc()).limit(1)
    return session.scalars(newest.execution_options(populate_existing=True)).one_or_none()


def get(session: Session, project: str, name: str, upload_id: str) -> DatasetUpload | None:
    """An upload that has not expired, or None."""
    statement = select(DatasetUpload).where(
        DatasetUpload.id == upload_id,
        DatasetUpload.project == project,
        DatasetUpload.name == name,
        DatasetUpload.expires_at > now(),
    )
    return session.scalars(statement.execution_options(populate_existing=True)).one_or_none()


def add_part(
    session: Session, upload_id: str, offset_bytes: int, part: tuple[str, int, str]
) -> bool:
    """Add a stored part that begins at `offset_bytes`: its file name, size and SHA-256.

    False if another request was first, the upload is complete, or there is none.
    """
    statement = select(DatasetUpload).where(
        DatasetUpload.id == upload_id,
        DatasetUpload.offset_bytes == offset_bytes,
        DatasetUpload.number.is_(None),
    )
    row = session.scalars(
        statement.with_for_update().execution_options(populate_existing=True)
    ).one_or_none()
    if row is None:
        return False
    row.parts = [*row.parts, list(part)]
    row.offset_bytes = offset_bytes + part[1]
    session.flush()
    latest = update(DatasetUpload).where(
        DatasetUpload.id == upload_id, DatasetUpload.created_at > from_now(IDLE_S - MAX_LIFETIME_S)
    )
    values = latest.values(expires_at=from_now(IDLE_S))
    session.execute(values.execution_options(synchronize_session=False))
    return True


def mark_complete(session: Session, upload_id: str, number: int) -> None:
    """Record the version that an upload has become; its bytes are no longer reserved."""
    statement = update(DatasetUpload).where(DatasetUpload.id == upload_id)
    session.execute(
        statement.values(number=number, parts=[]).execution_options(synchronize_session=False)
    )


def remove(session: Session, upload_id: str) -> None:
    """Delete the row of an upload; its files are deleted after the commit."""
    statement = delete(DatasetUpload).where(DatasetUpload.id == upload_id)
    session.execute(statement.execution_options(synchronize_session=False))


def expired(session: Session) -> Sequence[str]:
    """The ids of expired uploads, the oldest first; locked."""
    statement = (
        select(DatasetUpload.id)
        .where(DatasetUpload.expires_at <= now())
        .order_by(DatasetUpload.expires_at)
        .limit(BATCH)
        .with_for_update(skip_locked=True)
    )
    return session.scalars(statement).all()

"""Delete what has expired or is unused: workers, keys, browser sessions, uploads, files."""

from typing import Final

from infra.storage import Storage
from server.file_removal import remove_files
from store import workers
from store.access import browser_sessions, idempotency, person_sessions, sign_ins
from store.database import Database
from store.files import dataset_uploads, file_removals, project_files
from store.files.file_removals import Removal
from store.notifications import deliveries

DAY_S: Final = 86_400.0
WORKER_RETENTION_S: Final = 7 * DAY_S
"""A worker that stopped longer ago is deleted."""


def delete_expired_rows(database: Database) -> None:
    """Delete them once; several servers may do this at the same time."""
    with database.write() as session:
        workers.delete_gone(session, gone_s=WORKER_RETENTION_S)
        idempotency.delete_expired(session)
        browser_sessions.delete_expired(session)
        person_sessions.delete_ended(session)
        sign_ins.delete_expired(session)
    with database.write() as session:
        deliveries.delete_old(session)


def delete_expired_uploads(database: Database, storage: Storage) -> None:
    """Delete uploads of datasets to which nothing was added for long, and their files."""
    removals: list[Removal] = []
    with database.write() as session:
        for upload_id in dataset_uploads.expired(session):
            dataset_uploads.remove(session, upload_id)
            removals += file_removals.schedule(session, dataset_uploads.folder_of(upload_id))
    remove_files(database, storage, removals)


def delete_unused_files(database: Database, storage: Storage) -> None:
    """Delete files that no job names, a day after their last use."""
    with database.write() as session:
        paths = project_files.remove_unused(session)
        removals = file_removals.schedule(session, project_files.STORAGE_FOLDER, paths)
    remove_files(database, storage, removals)

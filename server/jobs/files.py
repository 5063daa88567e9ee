"""Delete the files of jobs that the database has forgotten, outside every transaction."""

import logging
from collections.abc import Sequence

from sqlalchemy.exc import SQLAlchemyError

from service.storage import Storage, StorageFailed
from store import file_removals
from store.database import Database
from store.file_removals import Removal

log = logging.getLogger(__name__)


def remove_files(database: Database, storage: Storage, removals: Sequence[Removal]) -> None:
    """Delete these files. Those that the storage does not delete are tried again later."""
    gone, left = [], []
    for removal in removals:
        try:
            if removal.path is None:
                storage.remove_job(removal.job_id)
            else:
                storage.remove(removal.job_id, [removal.path])
            gone.append(removal)
        except StorageFailed as error:
            log.warning("files of job %s stay for now: %s", removal.job_id, error)
            left.append(removal)
    try:
        with database.write() as session:
            file_removals.done(session, gone)
            file_removals.failed(session, left)
    except SQLAlchemyError as error:  # they are due again, and what they name is gone already
        log.warning("it is not written down yet that files are deleted: %s", error)


def remove_due_files(database: Database, storage: Storage) -> None:
    """Delete what a process that died, or a storage that was away, has left."""
    with database.read() as session:
        due = file_removals.due(session)
        needed = [removal for removal in due if file_removals.is_needed(session, removal)]
    if needed:
        with database.write() as session:
            file_removals.done(session, needed)
    if others := [removal for removal in due if removal not in needed]:
        remove_files(database, storage, others)

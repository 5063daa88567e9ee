"""Delete files whose rows are deleted (store.files.file_removals), outside any transaction."""

import logging
from collections.abc import Sequence

from sqlalchemy.exc import SQLAlchemyError

from infra.storage import Storage, StorageFailed
from store.database import Database
from store.files import file_removals
from store.files.file_removals import Removal

log = logging.getLogger(__name__)


def remove_files(database: Database, storage: Storage, removals: Sequence[Removal]) -> bool:
    """Delete these files. Those that cannot be deleted now are tried again later.

    Args:
        database: Of the rows that name the files.
        storage: Where the files are.
        removals: What to delete.

    Returns:
        Whether the database was updated; otherwise all are tried again.
    """
    gone, failed_removals = [], []
    for removal in removals:
        try:
            if removal.path is None:
                storage.remove_folder(removal.folder)
            else:
                storage.remove(removal.folder, [removal.path])
            gone.append(removal)
        except StorageFailed as error:
            log.warning("cannot delete files of %s now, will retry: %s", removal.folder, error)
            failed_removals.append(removal)
    try:
        with database.write() as session:
            file_removals.mark_done(session, gone)
            file_removals.postpone(session, failed_removals)
    except SQLAlchemyError as error:  # they are tried again; deleting a missing file does nothing
        log.warning(
            "files were deleted, but the database could not be updated; will retry: %s", error
        )
        return False
    return True


def remove_due_files(database: Database, storage: Storage) -> bool:
    """Execute the removals that are due: of requests, and those that failed or whose process died.

    Args:
        database: Of the rows that name the files.
        storage: Where the files are.

    Returns:
        Whether more of them may be due: as many as are read at once were executed.
    """
    with database.read() as session:
        due = file_removals.due(session)
        cancelled_removals = [
            removal for removal in due if file_removals.is_needed(session, removal)
        ]
    if cancelled_removals:
        with database.write() as session:
            file_removals.mark_done(session, cancelled_removals)
    if due_removals := [removal for removal in due if removal not in cancelled_removals]:
        is_recorded = remove_files(database, storage, due_removals)
        return is_recorded and len(due) == file_removals.BATCH
    return len(due) == file_removals.BATCH

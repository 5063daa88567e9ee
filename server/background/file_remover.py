"""The file remover: a background thread that deletes files, since a storage may hang."""

import logging
import math
import time
from typing import Final

from infra.storage import Storage
from server.background import cleanup
from server.background.periodic_thread import FailureLog, PeriodicThread
from server.file_removal import remove_due_files
from store import leaders
from store.database import Database

log = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
"""Between two looks for removals that are due; only the server that leads executes them."""
CLEANUP_INTERVAL_S: Final = 60.0
"""Between two searches for expired uploads and unused files."""


class FileRemover:
    """A thread that deletes files for all servers while its server leads.

    Args:
        database: Of the rows that name the files.
        storage: Where the files are.
        server_id: The name of this server among all.
    """

    def __init__(self, database: Database, storage: Storage, server_id: str) -> None:
        self._database, self._storage, self._server_id = database, storage, server_id
        self._thread = PeriodicThread("file-remover", self._round, INTERVAL_S)
        self._cleaned_at = -math.inf
        self._failures = FailureLog(log)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current round; it is waited for only some seconds."""
        self._thread.stop()

    def remove(self) -> bool:
        """Delete the files whose removal is due; once a minute also what expired or is unused.

        Returns:
            Whether more removals may be due.
        """
        if time.monotonic() - self._cleaned_at >= CLEANUP_INTERVAL_S:
            self._cleaned_at = time.monotonic()
            cleanup.delete_expired_uploads(self._database, self._storage)
            cleanup.delete_unused_files(self._database, self._storage)
        return remove_due_files(self._database, self._storage)

    def _round(self) -> bool:
        return self._failures.attempt("deleting files", self._remove_if_it_leads)

    def _remove_if_it_leads(self) -> bool:
        leads = leaders.leads(self._database, leaders.BACKGROUND, self._server_id)
        return leads and self.remove()

"""The retention runner: a background thread that empties the trash."""

import logging
from typing import Final

from server.background.periodic_thread import FailureLog, PeriodicThread
from store import leaders
from store.database import Database
from store.jobs import trash

log = logging.getLogger(__name__)

INTERVAL_S: Final = 5.0
BATCH: Final = 100
"""Jobs of one round; each is deleted in a transaction of its own."""


class RetentionRunner:
    """A thread that deletes what is due for all servers while its server leads.

    Args:
        database: Of the jobs.
        server_id: The name of this server among all.
        every_s: The pause between two rounds, in seconds.
    """

    def __init__(self, database: Database, server_id: str, *, every_s: float = INTERVAL_S) -> None:
        self._database, self._server_id = database, server_id
        self._thread = PeriodicThread("retention-runner", self._round, every_s)
        self._failures = FailureLog(log)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the job that is being deleted."""
        self._thread.stop()

    def empty_trash(self) -> bool:
        """Delete the jobs whose time in the trash is over; whether more may be due."""
        with self._database.write() as session:
            trash.take_out_unfinished(session)
        with self._database.read() as session:
            job_ids = trash.due(session, BATCH)
        for job_id in job_ids:
            if self._thread.is_stopping:
                return False
            with self._database.write() as session:
                is_purged = trash.purge(session, job_id)
            if is_purged:
                log.info("job %s was deleted from the trash", job_id)
        return len(job_ids) == BATCH

    def _round(self) -> bool:
        return self._failures.attempt("emptying the trash", self._empty_trash_if_it_leads)

    def _empty_trash_if_it_leads(self) -> bool:
        leads = leaders.leads(self._database, leaders.BACKGROUND, self._server_id)
        return leads and self.empty_trash()

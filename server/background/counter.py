"""The counter: a background thread that counts what takes long (store.listing.service_counts)."""

import logging
from typing import Final

from server.background.periodic_thread import FailureLog, PeriodicThread
from store import leaders
from store.database import Database
from store.listing import service_counts

log = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
TASK: Final = leaders.BACKGROUND


class ServiceCounter:
    """A thread that counts for all servers while it leads; several servers may run one."""

    def __init__(self, database: Database, server_id: str, *, every_s: float = INTERVAL_S) -> None:
        self._database, self._server_id = database, server_id
        self._thread = PeriodicThread("counter", self._round, every_s)
        self._failures = FailureLog(log)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current count."""
        self._thread.stop()

    def count(self) -> None:
        """Count what is due, if this server leads."""
        if leaders.leads(self._database, TASK, self._server_id):
            service_counts.refresh(self._database)

    def _round(self) -> None:
        self._failures.attempt("counting for the metrics", self.count)

"""Transactions that are retried while the database is unreachable, until their attempt ends."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from store import leases
from store.database import Database
from store.database_errors import is_outage
from store.leases import LEASE_S, LeaseStatus, max_reconnect_wait_s
from store.telemetry import ingest
from store.telemetry.ingest import TelemetryEntry

log = logging.getLogger(__name__)
T = TypeVar("T")

INITIAL_BACKOFF_S: Final = 0.1
HEARTBEAT_INTERVAL_S: Final = 2.0


class WriteAbandoned(Exception):
    """The write was given up because its attempt has ended."""


@dataclass(frozen=True)
class Lease:
    """The attempt that writes, and how long each of its writes extends the job's lease."""

    job_id: str
    attempt: int
    lease_s: float

    @property
    def heartbeat_interval_s(self) -> float:
        """The longest time between two renewals, which also read pending requests."""
        return min(HEARTBEAT_INTERVAL_S, self.lease_s / 5)

    def renew(
        self, session: Session, entries: Sequence[TelemetryEntry], entries_written: int
    ) -> LeaseStatus | None:
        """Renew it and write entries, if there are any.

        Args:
            session: The transaction, which may be repeated.
            entries: The next entries of the attempt.
            entries_written: How many it has written before.

        Returns:
            None if another attempt owns the job or the job has ended: nothing is written then.
        """
        job_id, attempt, lease_s = self.job_id, self.attempt, self.lease_s
        if not entries:
            return leases.renew_lease(session, job_id, attempt, lease_s=lease_s)
        return ingest.append(
            session, job_id, attempt, entries, entries_written=entries_written, lease_s=lease_s
        )


@dataclass(frozen=True)
class RetryingDatabase:
    """The transactions of one attempt; gives up retrying once `attempt_ended` is set."""

    database: Database
    attempt_ended: threading.Event
    max_reconnect_wait_s: float = max_reconnect_wait_s(LEASE_S)
    on_commit: Callable[[], object] = lambda: None
    """Called after each transaction."""
    _under_way: dict[int, float] = field(default_factory=dict, init=False)
    """For each thread that writes, when it began (monotonic clock)."""

    @property
    def longest_write_s(self) -> float:
        """For how many seconds the oldest of the writes that are under way has been tried."""
        now = time.monotonic()
        return now - min(self._under_way.copy().values(), default=now)

    def write(self, action: Callable[[Session], T]) -> T:
        """Run one transaction, and retry it while the database is unreachable.

        Raises WriteAbandoned when the attempt ends before the transaction is committed, and any
        error that is no outage.
        """
        thread = threading.get_ident()
        self._under_way[thread] = time.monotonic()
        try:
            return self._write(action)
        finally:
            del self._under_way[thread]

    def _write(self, action: Callable[[Session], T]) -> T:
        backoff_s = INITIAL_BACKOFF_S
        while True:
            try:
                with self.database.write() as session:
                    done = action(session)
                self.on_commit()
                return done
            except SQLAlchemyError as error:
                if not is_outage(error):  # it would fail again and again
                    raise
                cause = str(getattr(error, "orig", None) or error).partition("\n")[0]
                log.warning("the database is unreachable, retrying in %g s: %s", backoff_s, cause)
                if self.attempt_ended.wait(backoff_s):
                    raise WriteAbandoned from error
                backoff_s = min(2 * backoff_s, self.max_reconnect_wait_s)

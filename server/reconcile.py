"""Set right, again and again, what messages and workers left undone; safe in several servers."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from server.wake import RedisGone, Wake, wake_workers
from store import jobs
from store.database import Database

log = logging.getLogger(__name__)

EVERY_S: Final = 1.0
QUIET_S: Final = 3.0
"""A queued job for which no message went out for so long gets another one, if none waits."""
LONG_QUIET_S: Final = 60.0
"""The same while other messages wait: slow enough not to fill the queue with duplicates."""
EXPIRING: Final = "looking for lost workers"
CALM_S: Final = 10.0
"""How long all must have gone well before a silent worker counts as lost.

After an outage of the database the workers need a moment too; none of them is to blame.
"""
BATCH: Final = 100


class Reconciler:
    """A thread that compares the database with the queue and with the clock."""

    def __init__(
        self,
        database: Database,
        wake: Wake,
        *,
        every_s: float = EVERY_S,
        calm_s: float = CALM_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._wake = wake
        self._every_s = every_s
        self._calm_s = calm_s
        self._clock = clock
        self._round_at = self._calm_since = clock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)
        self._failing: set[str] = set()

    def start(self) -> None:
        """Begin with the first round at once."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present round."""
        self._stop.set()
        self._thread.join(timeout=5)

    def resend(self) -> None:
        """Send the messages that were lost or never sent.

        Soon only while the queue is empty: a job whose message waits behind busy workers is
        not lost, and sending it again every few seconds would fill the queue with duplicates.
        """
        with self._database.read() as session:
            lost = jobs.to_wake(session, quiet_s=QUIET_S, limit=BATCH)
            if lost and self._wake.waiting() > 0:
                lost = jobs.to_wake(session, quiet_s=LONG_QUIET_S, limit=BATCH)
        if lost:
            log.info("queued jobs whose messages are sent again: %d", len(lost))
            wake_workers(self._database, self._wake, lost)

    def expire(self) -> None:
        """End the jobs of workers that were not heard of."""
        with self._database.write() as session:
            for job in jobs.expire_leases(session):
                log.warning("job %s is %s: %s", job.id, job.state, job.message)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._attempt("sending messages again", self.resend)
            self._attempt(EXPIRING, self._expire_in_calm)
            self._stop.wait(self._every_s)

    def _expire_in_calm(self) -> None:
        now, last = self._clock(), self._round_at
        self._round_at = now
        if (
            EXPIRING in self._failing or now - last > self._calm_s
        ):  # an outage, or we stood still ourselves
            self._calm_since = now
        with self._database.read() as session:
            session.execute(select(1))
        if now - self._calm_since >= self._calm_s:
            self.expire()

    def _attempt(self, what: str, work: Callable[[], None]) -> None:
        """Do it; say that it fails, and that it works again, once each."""
        try:
            work()
        except (SQLAlchemyError, RedisGone) as error:
            if what not in self._failing:
                log.warning("%s fails, and is tried again quietly: %s", what, error)
            self._failing.add(what)
        except Exception:
            log.exception("%s failed", what)
        else:
            if what in self._failing:
                log.info("%s works again", what)
            self._failing.discard(what)

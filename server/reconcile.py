"""Set right, again and again, what messages and workers left undone; safe in several servers."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Final

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from server import tidy
from server.jobs.files import remove_due_files
from server.resend import resend
from server.wake import RedisGone, Wake
from service.storage import Storage
from store import lost
from store.clock import now
from store.database import Database
from store.leases import LEASE_S, calm_s

log = logging.getLogger(__name__)

EVERY_S: Final = 1.0
TIDY_EVERY_S: Final = 60.0
USUAL_ROUNDS: Final = 3
"""The shortest of so many says how long a round takes here."""
EXPIRING: Final = "looking for lost workers"


class Reconciler:
    """A thread that compares the database with the queue and with the clock.

    `rounds_at` is the moment (Unix time) of the last round that went well as a whole, and
    `leases_lost` counts the attempts that it took from workers.
    """

    def __init__(
        self,
        database: Database,
        wake: Wake,
        *,
        storage: Storage | None = None,
        lease_s: float = LEASE_S,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rounds_at: float | None = None
        self.leases_lost = 0
        self._database = database
        self._wake = wake
        self._storage = storage
        self._every_s = every_s
        self._calm_s = calm_s(lease_s)
        self._clock = clock
        self._round_at = self._calm_since = clock()
        self._rounds_s: deque[float] = deque(maxlen=USUAL_ROUNDS)
        self._database_at: datetime | None = None
        self._tidied_at = -TIDY_EVERY_S
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
        """Send the messages that were lost or never sent."""
        resend(self._database, self._wake)

    def expire(self) -> None:
        """Take the jobs of workers that were not heard of away from them."""
        with self._database.write() as session:
            ended = lost.expire(session)
        for job in ended:  # after the commit: what was rolled back has not been lost
            self.leases_lost += 1
            log.warning("job %s is %s: %s", job.id, job.state, job.message)

    def tidy(self) -> None:
        """Delete what nobody will ask for any more."""
        if self._clock() - self._tidied_at >= TIDY_EVERY_S:
            self._tidied_at = self._clock()
            tidy.sweep(self._database)
            if self._storage is not None:
                remove_due_files(self._database, self._storage)

    def _run(self) -> None:
        while not self._stop.is_set():
            # Before the messages: a lost job is due again at once.
            self._attempt(EXPIRING, self._expire_in_calm)
            self._attempt("sending messages again", self.resend)
            self._attempt("tidying", self.tidy)
            if not self._failing:
                self.rounds_at = time.time()
            self._stop.wait(self._every_s)

    def _expire_in_calm(self) -> None:
        at, went_by_s = self._clock(), self._by_the_database_s()
        lasted_s, self._round_at = at - self._round_at, at
        # A machine that is slow all the time goes on, and the workers on it do: that is no calm
        # that is broken, else nobody would ever be lost there.
        usual_s = min(self._rounds_s, default=0.0)
        slack_s = self._calm_s + max(usual_s - self._every_s, 0.0)
        stood_still = lasted_s > self._every_s + slack_s
        # Leases end by the database's clock: it was set, or the whole machine has slept.
        jumped = abs(went_by_s - lasted_s) > slack_s
        self._rounds_s.append(lasted_s)
        if EXPIRING in self._failing or stood_still or jumped:
            self._calm_since = at  # an outage, or nobody could speak
        if at - self._calm_since >= self._calm_s:
            self.expire()

    def _by_the_database_s(self) -> float:
        """How long the last round is ago by the database's clock; 0 for the first one."""
        with self._database.read() as session:
            present: datetime = session.scalars(select(now())).one()
        before, self._database_at = self._database_at, present
        return (present - (before or present)).total_seconds()

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
            self._failing.add(what)
        else:
            if what in self._failing:
                log.info("%s works again", what)
            self._failing.discard(what)

"""The reconciler: a background thread that finds lost workers and lost messages.

Each round expires leases, reserves slots for jobs with several ranks, dispatches queued jobs again,
and deletes expired rows. Of several servers one leads and does this; the others only observe
outages, so that one of them can take over at once. It does not touch the storage, which may hang.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from server.background import cleanup
from server.background.periodic_thread import FailureLog, PeriodicThread
from server.background.redispatch import redispatch
from server.dispatch import Dispatcher
from store import leaders, silent_workers
from store.clock import now
from store.database import Database
from store.gangs import gang_members, gangs
from store.jobs import lease_expiry, missing_turns
from store.leases import LEASE_S, outage_grace_s
from store.tables import new_id

log = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
CLEANUP_INTERVAL_S: Final = 60.0
RECENT_ROUNDS: Final = 3
"""The shortest of this many rounds is taken as the usual duration of a round."""
EXPIRE_LEASES: Final = "expiring leases"
FILL_TURNS: Final = "filling the turns of jobs"
RESERVE_SLOTS: Final = "reserving slots for gangs"
SEND_MESSAGES: Final = "sending messages again"
REPORT_WORKERS: Final = "reporting lost workers"
DELETE_ROWS: Final = "deleting expired rows"
TASK: Final = leaders.BACKGROUND


class Reconciler:
    """A thread that compares the database with the message queue and the clock.

    `last_success_at` is the Unix time of the last round without an error, and `leases_expired`
    counts the attempts that it ended because their lease had expired.
    """

    def __init__(
        self,
        database: Database,
        dispatcher: Dispatcher,
        *,
        lease_s: float = LEASE_S,
        server_id: str | None = None,
        every_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.last_success_at: float | None = None
        self.leases_expired = 0
        self._database = database
        self._dispatcher = dispatcher
        self._server_id = server_id or new_id()
        self._every_s = every_s
        self._outage_grace_s = outage_grace_s(lease_s)
        self._clock = clock
        self._round_at = self._available_since = clock()
        self._rounds_s: deque[float] = deque(maxlen=RECENT_ROUNDS)
        self._database_at: datetime | None = None
        self._cleaned_at = -CLEANUP_INTERVAL_S
        self._thread = PeriodicThread("reconciler", self._round, every_s)
        self._failures = FailureLog(log)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current round; another server leads at once."""
        self._thread.stop()
        with suppress(SQLAlchemyError):  # the lease of the leader ends by itself
            leaders.resign(self._database, TASK, self._server_id)

    def redispatch(self) -> None:
        """Send messages again that were lost or never sent."""
        redispatch(self._database, self._dispatcher)

    def expire(self) -> None:
        """End the attempts whose lease has expired; their jobs are queued again or fail."""
        with self._database.autocommit() as connection:
            if not lease_expiry.may_have_expired(connection):
                return
        with self._database.write() as session:
            ended = lease_expiry.expire(session)
        for job in ended:  # after the commit, so that nothing is counted that was rolled back
            self.leases_expired += 1
            log.warning("job %s is %s: %s", job.id, job.state, job.message)

    def fill_turns(self) -> None:
        """Give jobs that servers of an older version have queued their turns."""
        with self._database.autocommit() as connection:
            projects = missing_turns.projects(connection)
        if projects:
            with self._database.write() as session:
                missing_turns.fill(session, projects)

    def place_gangs(self) -> None:
        """Reserve slots for the gangs that wait, and end what is left of those that have ended."""
        with self._database.autocommit() as connection:
            if not gangs.are_unfinished(connection):
                return
        with self._database.write() as session:
            gang_members.end_expired_members(session)
            reservations = gangs.place(session)
            growing = gangs.request_growth(session)
        for reservation in reservations:
            ranks = sum(share.ranks for share in reservation.shares)
            kind = "busy slots" if reservation.is_draining else "slots"
            log.info("reserved %s for the %d ranks of job %s", kind, ranks, reservation.job_id)
        for job_id in growing:
            log.info("job %s ends at a checkpoint, to start with more ranks", job_id)

    def report_workers(self) -> None:
        """Write the notifications about workers that are lost, or online again."""
        with self._database.autocommit() as connection:
            if not silent_workers.have_changed(connection):
                return
        with self._database.write() as session:
            silent_workers.publish(session)

    def clean_up(self) -> None:
        """Delete expired rows, once a minute."""
        if self._clock() - self._cleaned_at >= CLEANUP_INTERVAL_S:
            self._cleaned_at = self._clock()
            cleanup.delete_expired_rows(self._database)

    def _round(self) -> None:
        if self._failures.attempt("choosing the server that leads", self._leads):
            # First the leases: a lost job can be dispatched again in the same round.
            self._failures.attempt(EXPIRE_LEASES, self._expire_after_outage_grace)
            self._failures.attempt(FILL_TURNS, self.fill_turns)
            self._failures.attempt(RESERVE_SLOTS, self.place_gangs)
            self._failures.attempt(SEND_MESSAGES, self.redispatch)
            self._failures.attempt(REPORT_WORKERS, self.report_workers)
            self._failures.attempt(DELETE_ROWS, self.clean_up)
        else:
            # What failed while it led is the matter of another server now.
            self._failures.forget(FILL_TURNS, RESERVE_SLOTS, SEND_MESSAGES, REPORT_WORKERS)
            self._failures.forget(DELETE_ROWS)
            self._failures.attempt(EXPIRE_LEASES, self._is_after_outage_grace)
        if not self._failures:
            self.last_success_at = time.time()

    def _leads(self) -> bool:
        return leaders.lead(self._database, TASK, self._server_id)

    def _expire_after_outage_grace(self) -> None:
        if self._is_after_outage_grace():
            self.expire()

    def _is_after_outage_grace(self) -> bool:
        """Whether workers had time to renew their leases; called in each round."""
        at, went_by_s = self._clock(), self._database_elapsed_s()
        lasted_s, self._round_at = at - self._round_at, at
        # On a machine that is always slow, rounds take longer than `every_s`. That is not an
        # outage: otherwise no lease would ever expire there.
        usual_s = min(self._rounds_s, default=0.0)
        slack_s = self._outage_grace_s + max(usual_s - self._every_s, 0.0)
        stood_still = lasted_s > self._every_s + slack_s
        # Leases expire by the database's clock: it was set, or the machine was suspended.
        jumped = abs(went_by_s - lasted_s) > slack_s
        self._rounds_s.append(lasted_s)
        if EXPIRE_LEASES in self._failures or stood_still or jumped:
            self._available_since = at  # workers could not renew their leases
        return at - self._available_since >= self._outage_grace_s

    def _database_elapsed_s(self) -> float:
        """Seconds since the last round by the database's clock; 0 in the first round."""
        with self._database.autocommit() as connection:
            present: datetime = connection.scalars(select(now())).one()
        last_round_at, self._database_at = self._database_at, present
        return (present - (last_round_at or present)).total_seconds()

"""GangHeartbeat: renews the lease of one worker's ranks, and reads requests to stop."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from store.database import Database
from store.gangs import gang_members
from store.gangs.gang_members import Assignment

log = logging.getLogger(__name__)

MAX_INTERVAL_S: Final = 1.0


class GangHeartbeat:
    """A thread that renews the lease of a worker's ranks until it is stopped.

    Args:
        database: The database.
        worker_id: This worker.
        assignment: Its ranks.
        lease_s: How long each renewal lasts.
        self_fence_s: Without a renewal for this long the ranks must stop.
        devices: Describes the ranks.
    """

    def __init__(
        self,
        database: Database,
        worker_id: str,
        assignment: Assignment,
        *,
        lease_s: float,
        self_fence_s: float,
        devices: Callable[[], Sequence[dict[str, Any]]],
    ) -> None:
        self.stop_request: str | None = None
        """Why this worker requests that the attempt stop."""
        self.stop_requested = False
        """Whether the worker of rank 0 requested the end of the ranks."""
        self._database, self._worker_id, self._assignment = database, worker_id, assignment
        self._lease_s, self._self_fence_s, self._devices = lease_s, self_fence_s, devices
        self._renewed_at = time.monotonic()
        self._is_refused = False
        self._done = threading.Event()
        run = copy_context().run
        self._thread = threading.Thread(
            target=run, args=[self._run], name="gang-heartbeat", daemon=True
        )

    @property
    def is_fenced(self) -> bool:
        """Whether the attempt is over, or may be: the ranks must end at once."""
        return self._is_refused or time.monotonic() - self._renewed_at > self._self_fence_s

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        interval_s = min(MAX_INTERVAL_S, self._lease_s / 5)
        while not self._is_refused:
            try:
                self._renew()
            except SQLAlchemyError as error:
                log.warning("cannot renew the lease of the ranks: %s", error)
            if self._done.wait(interval_s):
                return

    def _renew(self) -> None:
        began = time.monotonic()  # the lease counts from before the statement
        with self._database.write() as session:
            is_active, requested = gang_members.renew(
                session,
                self._assignment.job_id,
                self._assignment.attempt,
                self._worker_id,
                lease_s=self._lease_s,
                stop_request=self.stop_request,
                devices=self._devices(),
            )
        if not is_active:
            log.info("the attempt of the ranks has ended")
            self._is_refused = True
            return
        self._renewed_at = began
        self.stop_requested = self.stop_requested or requested == gang_members.STOP

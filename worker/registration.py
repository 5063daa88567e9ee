"""Registers the worker in the database, sends heartbeats, and notices drain requests."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

import ampspec
from store import workers
from store.database import Database
from worker.shutdown import Shutdown

log = logging.getLogger(__name__)
HEARTBEAT_INTERVAL_S: Final = 2.0

ReadFacts = Callable[[], dict[str, Any] | None]


def _stop_this_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class WorkerRegistration:
    """The worker's row in the table of workers, kept up to date by a thread.

    Args:
        database: The database with the table of workers.
        worker_id: The primary key of the row.
        slots: How many jobs the worker runs at a time.
        queues: The queues that it serves.
        job_id: The only job that it runs; None: the jobs of its queues.
        hardware: Reads the machine's hardware; None while it is unknown.
        usage: Reads the worker's metrics.
        shutdown: Gets the deadline of a drain.
        drain: Called once when a drain is requested; by default SIGTERM to this process.
    """

    def __init__(
        self,
        database: Database,
        worker_id: str,
        *,
        slots: int,
        queues: tuple[str, ...],
        job_id: str | None = None,
        hardware: ReadFacts,
        usage: ReadFacts,
        shutdown: Shutdown | None = None,
        drain: Callable[[], None] = _stop_this_process,
    ) -> None:
        self._database, self._worker_id = database, worker_id
        self._slots, self._queues, self._job_id = slots, queues, job_id
        self._hardware, self._usage, self._drain = hardware, usage, drain
        self._shutdown = shutdown if shutdown is not None else Shutdown()
        self._is_draining = False
        self._stopped = threading.Event()

    def start(self) -> None:
        """Register, then send heartbeats."""
        self._thread = threading.Thread(target=self._run, name="registration", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the heartbeats and mark the worker as stopped."""
        self._stopped.set()
        self._thread.join()
        try:
            with self._database.write() as session:
                workers.stopped(session, self._worker_id)
        except SQLAlchemyError as error:  # it counts as lost after a while
            log.warning("cannot mark the worker as stopped: %s", error)

    def _run(self) -> None:
        while True:
            try:
                self._heartbeat()
            except Exception as error:  # a worker without heartbeats counts as lost
                log.warning("cannot write the worker's heartbeat: %s", error)
            if self._stopped.wait(HEARTBEAT_INTERVAL_S):
                return

    def _heartbeat(self) -> None:
        hardware, usage = self._hardware(), self._usage()
        with self._database.write() as session:
            if workers.get(session, self._worker_id) is None:
                self._register(session)
            drain = workers.heartbeat(session, self._worker_id, hardware=hardware, usage=usage)
        if drain is None:
            return
        if drain.timeout_s is not None:
            self._shutdown.timeout_s = drain.timeout_s
        if not self._is_draining:
            log.info(
                "a drain of this worker was requested; the files of its jobs are stored for at "
                "most %g s",
                self._shutdown.timeout_s,
            )
            self._is_draining = True
            self._drain()

    def _register(self, session: Session) -> None:
        workers.register(
            session,
            self._worker_id,
            hostname=socket.gethostname(),
            pid=os.getpid(),
            slots=self._slots,
            version=ampspec.__version__,
            queues=self._queues,
            job_id=self._job_id,
        )

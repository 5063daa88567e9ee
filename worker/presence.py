"""The worker's line in the registry: hello, a sign of life now and then, good-bye."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

import ampcore
from store import workers
from store.database import Database

log = logging.getLogger(__name__)
EVERY_S: Final = 2.0

Facts = Callable[[], dict[str, Any] | None]


def _stop_this_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class Presence:
    """Keeps `last_seen_at` fresh from a thread of its own, and hears when the worker is to drain.

    Args:
        database: Where the registry is.
        worker_id: Whose line it is.
        slots: How many jobs it runs at one time.
        queues: Whose jobs it takes.
        hardware: What is known of the machine, once it is known.
        usage: What the worker measures of itself.
        drain: Called once, when somebody asks the worker to take no more jobs and to end.
    """

    def __init__(
        self,
        database: Database,
        worker_id: str,
        *,
        slots: int,
        queues: tuple[str, ...],
        hardware: Facts,
        usage: Facts,
        drain: Callable[[], None] = _stop_this_process,
    ) -> None:
        self._database, self._worker_id = database, worker_id
        self._slots, self._queues = slots, queues
        self._hardware, self._usage, self._drain = hardware, usage, drain
        self._is_draining = False
        self._over = threading.Event()

    def start(self) -> None:
        """Say hello; then give signs of life."""
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Say good-bye, as the last word."""
        self._over.set()
        self._thread.join()
        try:
            with self._database.write() as session:
                workers.stopped(session, self._worker_id)
        except SQLAlchemyError as error:  # it counts as lost in a while
            log.warning("no good-bye could be said: %s", error)

    def _run(self) -> None:
        while True:
            try:
                self._show_life()
            except Exception as error:  # whatever it is, a worker that is silent counts as lost
                log.warning("no sign of life could be given: %s", error)
            if self._over.wait(EVERY_S):
                return

    def _show_life(self) -> None:
        hardware, usage = self._hardware(), self._usage()
        with self._database.write() as session:
            if workers.get(session, self._worker_id) is None:
                self._say_hello(session)
            asked = workers.seen(session, self._worker_id, hardware=hardware, usage=usage)
        if asked and not self._is_draining:
            log.info("the worker is asked to drain")
            self._is_draining = True
            self._drain()

    def _say_hello(self, session: Session) -> None:
        workers.register(
            session,
            self._worker_id,
            hostname=socket.gethostname(),
            pid=os.getpid(),
            slots=self._slots,
            version=ampcore.__version__,
            queues=self._queues,
        )

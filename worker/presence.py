"""The worker's line in the registry: hello, a sign of life now and then, good-bye."""

import logging
import os
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

import ampcore
from store import workers
from store.database import Database
from store.tables import new_id
from worker.standby import Standby

log = logging.getLogger(__name__)
EVERY_S: Final = 2.0


class Presence:
    """Keeps `last_seen_at` fresh from a thread of its own."""

    def __init__(self, database: Database, slots: int) -> None:
        self.worker_id = new_id()
        self._database = database
        self._slots = slots
        self._over = threading.Event()

    def start(self, standby: Standby) -> None:
        """Say hello; then give signs of life, with the hardware that the standby has found."""
        self._thread = threading.Thread(
            target=self._run, args=[standby], name="presence", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Say good-bye, as the last word."""
        self._over.set()
        self._thread.join()
        with self._database.write() as session:
            workers.stopped(session, self.worker_id)

    def _run(self, standby: Standby) -> None:
        tell: Callable[[Session], None] = self._say_hello
        while True:
            try:
                with self._database.write() as session:
                    tell(session)
                tell = partial(self._show_life, standby)
            except SQLAlchemyError as error:
                log.warning("no sign of life could be given: %s", error)
            if self._over.wait(EVERY_S):
                return

    def _say_hello(self, session: Session) -> None:
        workers.register(
            session,
            self.worker_id,
            hostname=socket.gethostname(),
            pid=os.getpid(),
            slots=self._slots,
            version=ampcore.__version__,
        )

    def _show_life(self, standby: Standby, session: Session) -> None:
        workers.seen(session, self.worker_id, standby.hardware())

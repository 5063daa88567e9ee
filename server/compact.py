"""Merge steps as they age, in the background; safe in several servers."""

import logging
import threading
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from store.database import Database
from store.loose import Loose, waiting

log = logging.getLogger(__name__)

EVERY_S: Final = 1.0
AT_ONE_TIME: Final = 50


class Compactor:
    """A thread that merges what has come since its last round.

    `merged` counts the times that it has put merged blocks in the place of others.
    """

    def __init__(self, database: Database, *, every_s: float = EVERY_S) -> None:
        self.merged = 0
        self._database = database
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="compactor", daemon=True)
        self._fails = False
        self._broken: set[Loose] = set()

    def start(self) -> None:
        """Begin with the first round at once."""
        self._thread.start()

    def stop(self) -> None:
        """End after the merge that is under way."""
        self._stop.set()
        self._thread.join(timeout=5)

    def compact(self) -> bool:
        """Merge once what waits of each attempt; whether there was anything."""
        with self._database.read() as session:
            found = waiting(session, AT_ONE_TIME + len(self._broken))
        before = self.merged
        for whose in found:
            if whose in self._broken or self._stop.is_set():
                continue
            try:
                self.merged += self._merge(whose)
            except SQLAlchemyError:
                raise
            except Exception:
                log.exception("the steps of %s cannot be merged, and are left as they are", whose)
                self._broken.add(whose)
        return self.merged > before

    def _merge(self, whose: Loose) -> bool:
        from store import compaction  # loads pyarrow, which starting the server shall not wait for

        with self._database.read() as session:
            tail = compaction.read(session, whose)
        if not tail.pieces:
            return False
        merged = compaction.merge(tail)
        try:
            with self._database.write() as session:
                compaction.write(session, merged)
        except compaction.Outdated:
            return False
        return True

    def _run(self) -> None:
        while not self._stop.is_set():
            found = False
            try:
                found = self.compact()
                if self._fails:
                    log.info("merging steps works again")
                self._fails = False
            except SQLAlchemyError as error:
                if not self._fails:
                    log.warning("merging steps fails, and is tried again quietly: %s", error)
                self._fails = True
            if not found:
                self._stop.wait(self._every_s)

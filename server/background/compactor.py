"""The compactor: a background thread that merges small step blocks (store.telemetry.compaction)."""

import logging
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from server.background.periodic_thread import FailureLog, PeriodicThread
from store.database import Database
from store.telemetry.compaction_queue import UncompactedAttempt, uncompacted_attempts

log = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
ATTEMPTS_PER_ROUND: Final = 50


class Compactor:
    """A thread that merges new step blocks; several servers may run one.

    `merged` counts the merges that it has written.
    """

    def __init__(self, database: Database, *, every_s: float = INTERVAL_S) -> None:
        self.merged = 0
        self._database = database
        self._thread = PeriodicThread("compactor", self._round, every_s)
        self._failures = FailureLog(log)
        self._unmergeable: set[UncompactedAttempt] = set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current merge."""
        self._thread.stop()

    def compact(self) -> bool:
        """Merge once for each attempt with unmerged blocks; whether anything was merged."""
        with self._database.read() as session:
            attempts = uncompacted_attempts(session, ATTEMPTS_PER_ROUND + len(self._unmergeable))
        merged_before = self.merged
        for uncompacted in attempts:
            if uncompacted in self._unmergeable or self._thread.is_stopping:
                continue
            try:
                self.merged += self._merge(uncompacted)
            except SQLAlchemyError:
                raise
            except Exception:
                log.exception(
                    "cannot merge the steps of %s; they stay in small blocks", uncompacted
                )
                self._unmergeable.add(uncompacted)
        return self.merged > merged_before

    def _merge(self, uncompacted: UncompactedAttempt) -> bool:
        from store.telemetry import (
            compaction,  # imports pyarrow, which must not delay the server's start
        )

        with self._database.read() as session:
            tail = compaction.read_uncompacted(session, uncompacted)
        if not tail.pieces:
            return False
        merged = compaction.merge_steps(tail)
        try:
            with self._database.write() as session:
                compaction.write_merged(session, merged)
        except compaction.StaleRead:
            return False
        return True

    def _round(self) -> bool:
        return self._failures.attempt("merging steps", self.compact)

"""The study runner: a background thread that advances studies (server.studies.progress)."""

import logging
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from server.background.periodic_thread import FailureLog, PeriodicThread
from server.studies.progress import StudyProgress
from store import studies

log = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0


class StudyRunner:
    """A thread that advances every study that has not ended; several servers may run one."""

    def __init__(self, progress: StudyProgress, *, every_s: float = INTERVAL_S) -> None:
        self._progress = progress
        self._thread = PeriodicThread("study-runner", self._round, every_s)
        self._failures = FailureLog(log)
        self._failing: set[str] = set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current study."""
        self._thread.stop()

    def advance_all(self) -> None:
        """Advance each study once; one that fails does not keep the others waiting."""
        with self._progress.database.read() as session:
            ids = studies.unfinished(session)
        self._failing &= set(ids)
        for study_id in ids:
            if self._thread.is_stopping:
                return
            self._advance(study_id)

    def _advance(self, study_id: str) -> None:
        """Advance a study; log once that it fails, and once that it works again."""
        try:
            self._progress.advance(study_id)
        except SQLAlchemyError:
            raise
        except Exception:
            if study_id not in self._failing:
                log.exception("study %s cannot be advanced; it is tried again", study_id)
            self._failing.add(study_id)
        else:
            self._failing.discard(study_id)

    def _round(self) -> None:
        self._failures.attempt("advancing studies", self.advance_all)

"""The study runner: a background thread that advances studies (server.studies.progress)."""

import logging
import threading
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from server.studies.progress import StudyProgress
from store import studies

log = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0


class StudyRunner:
    """A thread that advances every study that has not ended; several servers may run one."""

    def __init__(self, progress: StudyProgress, *, every_s: float = INTERVAL_S) -> None:
        self._progress = progress
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="study-runner", daemon=True)
        self._failing: set[str] = set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current study."""
        self._stop.set()
        self._thread.join(timeout=5)

    def advance_all(self) -> None:
        """Advance each study once; one that fails does not keep the others waiting."""
        with self._progress.database.read() as session:
            ids = studies.unfinished(session)
        self._failing &= set(ids)
        for study_id in ids:
            if self._stop.is_set():
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

    def _run(self) -> None:
        is_failing = False
        while not self._stop.is_set():
            try:
                self.advance_all()
                if is_failing:
                    log.info("advancing studies works again")
                is_failing = False
            except SQLAlchemyError as error:
                if not is_failing:
                    log.warning(
                        "advancing studies failed; retrying without further log lines: %s", error
                    )
                is_failing = True
            self._stop.wait(self._every_s)

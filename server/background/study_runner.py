"""The study runner: a background thread that advances studies (server.studies.progress)."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from server.background.periodic_thread import FailureLog, PeriodicThread
from server.studies.progress import StudyProgress
from store import leaders, studies
from store.tables import new_id

log = logging.getLogger(__name__)

TASK: Final = leaders.BACKGROUND
INTERVAL_S: Final = 1.0
"""Between two rounds in which every study is advanced."""
POLL_S: Final = 0.1
"""While a study is unfinished: between two looks whether a job of one has ended."""


class StudyRunner:
    """A thread that advances every study that has not ended; of several servers one leads.

    A study whose next job depends on the last one is advanced as soon as that one has ended.

    Args:
        progress: Advances a study.
        server_id: The name of this server among all.
        every_s: The pause between two rounds, in seconds.
        clock: The time in seconds.
    """

    def __init__(
        self,
        progress: StudyProgress,
        *,
        server_id: str | None = None,
        every_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress, self._every_s, self._clock = progress, every_s, clock
        self._server_id = server_id or new_id()
        self._next_round_at = -math.inf
        self._has_studies = False
        self._thread = PeriodicThread("study-runner", self._round, min(POLL_S, every_s))
        self._failures = FailureLog(log)
        self._failing: set[str] = set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current study."""
        self._thread.stop()

    def advance_all(self) -> None:
        """Advance each study once, if this server leads.

        A study that fails does not keep the others waiting.
        """
        self._has_studies = False
        if not leaders.leads(self._progress.database, TASK, self._server_id):
            self._progress.keep_plans_of(())
            return
        with self._progress.database.read() as session:
            ids = studies.unfinished(session)
        self._has_studies = bool(ids)
        self._failing &= set(ids)
        self._progress.keep_plans_of(ids)
        self._advance_each(ids)

    def advance_those_with_ended_jobs(self) -> None:
        """Advance each study with a job that has ended since it was advanced."""
        with self._progress.database.read() as session:
            ids = studies.with_ended_jobs(session)
        # A study that fails is tried again with all others, not ten times a second.
        self._advance_each([study_id for study_id in ids if study_id not in self._failing])

    def _advance_each(self, ids: Sequence[str]) -> None:
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
        if self._clock() >= self._next_round_at:
            self._next_round_at = self._clock() + self._every_s
            self._failures.attempt("advancing studies", self.advance_all)
        elif self._has_studies and not self._failures:
            self._failures.attempt("advancing studies", self.advance_those_with_ended_jobs)

"""A background thread that repeats its work, and a log of failures without repetitions."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from server.dispatch import RedisUnavailable

STOP_S: Final = 5.0
"""How long `stop` waits for the work in progress."""
OUTAGES: Final = (SQLAlchemyError, RedisUnavailable)


class PeriodicThread:
    """Calls `work` in a daemon thread until it is stopped.

    Args:
        name: Of the thread.
        work: Returns true to be called again at once; raises nothing.
        every_s: The pause between two calls, in seconds.
    """

    def __init__(self, name: str, work: Callable[[], object], every_s: float) -> None:
        self._work = work
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_stopping(self) -> bool:
        """Whether the work in progress is the last one."""
        return self._stop.is_set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the work in progress."""
        self._stop.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self._work():
                self._stop.wait(self._every_s)


class FailureLog:
    """Logs once that work fails, and once that it works again."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._failing: set[str] = set()

    def __bool__(self) -> bool:
        """Whether any work fails."""
        return bool(self._failing)

    def __contains__(self, what: str) -> bool:
        return what in self._failing

    def forget(self, *works: str) -> None:
        """Count these works as not failing: they are not done any more."""
        self._failing.difference_update(works)

    def attempt(self, what: str, work: Callable[[], object]) -> bool:
        """Do work; whether it was done, and returned true.

        Args:
            what: The work, as in "expiring leases".
            work: An outage of the database or Redis is one line in the log, another error has its
                traceback.
        """
        try:
            result = work()
        except OUTAGES as error:
            if what not in self._failing:
                self._log.warning("%s failed; retrying without further log lines: %s", what, error)
        except Exception:
            if what not in self._failing:
                self._log.exception("%s failed; retrying without further log lines", what)
        else:
            if what in self._failing:
                self._log.info("%s works again", what)
            self._failing.discard(what)
            return bool(result)
        self._failing.add(what)
        return False

"""StorageCheck: whether this process can use the storage of artifacts, asked in the background."""

import logging
import threading
import time
from typing import Final

from infra.storage import Storage, StorageFailed

log = logging.getLogger(__name__)

EVERY_S: Final = 60.0
RETRY_S: Final = 5.0
ANSWER_S: Final = 30.0
"""A storage that does not answer for this long cannot be used."""


class StorageCheck:
    """Stores a small file regularly, in a separate thread: a storage may never answer.

    Args:
        storage: The storage of artifacts.
        every_s: Seconds between two checks.
        retry_s: Seconds until the next check after a failed one.
    """

    def __init__(
        self, storage: Storage, *, every_s: float = EVERY_S, retry_s: float = RETRY_S
    ) -> None:
        self._storage, self._every_s, self._retry_s = storage, every_s, retry_s
        self._error: str | None = None
        self._began: float | None = None
        """Since when a check runs; None between checks."""
        self._first_ended, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="storage-check", daemon=True)
        self._is_started, self._starting = False, threading.Lock()

    @property
    def error(self) -> str | None:
        """Why the storage cannot be used; None if it can."""
        began = self._began
        if began is not None and time.monotonic() - began > ANSWER_S:
            return _no_answer(ANSWER_S)
        return self._error

    def start(self) -> None:
        """Start the thread, unless it was started before."""
        with self._starting:
            if not self._is_started:
                self._is_started = True
                self._thread.start()

    def stop(self) -> None:
        """Stop the thread; not waited for, since its check may hang."""
        self._stopped.set()
        self._first_ended.set()

    def is_usable(self) -> bool:
        """Whether the last check succeeded; waits for the end of the first one."""
        return self.last_error(ANSWER_S) is None

    def last_error(self, wait_s: float) -> str | None:
        """Why the storage cannot be used, by the last check; None if it can.

        Args:
            wait_s: How long the end of the first check is waited for, in seconds.
        """
        if not self._first_ended.wait(wait_s):
            return _no_answer(wait_s)
        return self.error

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._began = time.monotonic()
            self._record(self._check())
            self._began = None
            self._first_ended.set()
            self._stopped.wait(self._every_s if self._error is None else self._retry_s)

    def _check(self) -> Exception | None:
        try:
            self._storage.check()
        except Exception as error:  # a thread that ends would leave the last answer as the truth
            return error
        return None

    def _record(self, failure: Exception | None) -> None:
        """Keep the result of a check, and log it if it is another one than before."""
        error = None if failure is None else _reason(failure)
        if error != self._error:
            if error is None:
                log.info("the storage of artifacts can be used again")
            else:
                log.error("%s", error, exc_info=None if _is_known(failure) else failure)
        self._error = error


def _is_known(failure: Exception | None) -> bool:
    return isinstance(failure, StorageFailed)


def _reason(failure: Exception) -> str:
    """The reason, without the text of an unexpected error: anyone may read it at `/readyz`."""
    if _is_known(failure):
        return str(failure)
    return f"the storage of artifacts cannot be used: {type(failure).__name__}."


def _no_answer(for_s: float) -> str:
    return f"the storage of artifacts has not answered for {for_s:g} s."

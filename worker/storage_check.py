"""StorageCheck: whether a worker can use the storage of artifacts; it takes no job before."""

import logging
import threading
import time
from typing import Final

from service.storage import Storage, StorageFailed

log = logging.getLogger(__name__)

EVERY_S: Final = 60.0
RETRY_S: Final = 5.0
ANSWER_S: Final = 30.0
"""A storage that does not answer for this long cannot be used."""


class StorageCheck:
    """Stores a small file regularly, from a thread of its own: a storage may never answer.

    Args:
        storage: The storage of artifacts.
        every_s: Seconds between two checks.
        retry_s: The same after one that failed.
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

    @property
    def error(self) -> str | None:
        """Why the storage cannot be used; None if it can."""
        began = self._began
        if began is not None and time.monotonic() - began > ANSWER_S:
            return f"the storage of artifacts has not answered for {ANSWER_S:g} s."
        return self._error

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; not waited for, since its check may hang."""
        self._stopped.set()
        self._first_ended.set()

    def is_usable(self) -> bool:
        """Whether the last check succeeded; waits for the end of the first one."""
        self._first_ended.wait(ANSWER_S)
        return self._first_ended.is_set() and self.error is None

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._began = time.monotonic()
            error = self._check()
            if error != self._error:
                if error is None:
                    log.info("the storage of artifacts can be used again")
                else:
                    log.error("no job is taken: %s", error)
            self._error, self._began = error, None
            self._first_ended.set()
            self._stopped.wait(self._every_s if error is None else self._retry_s)

    def _check(self) -> str | None:
        try:
            self._storage.check()
        except StorageFailed as error:
            return str(error)
        except Exception as error:  # a thread that ends would leave the last answer as the truth
            return f"the storage of artifacts cannot be used: {type(error).__name__}: {error}"
        return None

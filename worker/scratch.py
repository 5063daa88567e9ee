"""Folders for attempts to write in, on this machine; gone with the attempt, at the latest later."""

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

SUFFIX: Final = ".lock"


class Scratch:
    """One worker's folder in the scratch folder; a lock beside it says that its worker lives.

    The lock is the kernel's, and so falls with the worker however that dies.
    """

    def __init__(self, root: Path, worker_id: str) -> None:
        self._root = root
        self.own = root / worker_id
        self._lock: int | None = None

    def open(self) -> None:
        """Make the folder, and remove those of workers that are dead. Raises OSError."""
        self._root.mkdir(parents=True, exist_ok=True)
        self._lock = self._locked()
        self.own.mkdir()
        for lock in self._root.glob(f"*{SUFFIX}"):
            with suppress(OSError):  # it is another's, or another worker was faster
                _remove_if_dead(lock)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.own, ignore_errors=True)
        if self._lock is not None:
            self.own.with_suffix(SUFFIX).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def folder(self, job_id: str, attempt: int) -> Iterator[Path]:
        """A place for the folder of one attempt, which makes it; it is gone afterwards."""
        folder = self.own / f"{job_id}-attempt-{attempt}"
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _locked(self) -> int:
        # Named when it is locked: nobody finds a lock that nobody holds yet.
        unnamed = self.own.with_suffix(".new")
        descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        unnamed.rename(self.own.with_suffix(SUFFIX))
        return descriptor


def _remove_if_dead(lock: Path) -> None:
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder = lock.with_suffix("")
        shutil.rmtree(folder, ignore_errors=True)
        lock.unlink(missing_ok=True)
        log.info("removed what the dead worker %s had left in scratch", folder.name)

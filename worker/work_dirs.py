"""Scratch folders of attempts; removed after the attempt, or later when the worker has died."""

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


class WorkDirs:
    """One worker's folder in the scratch folder, with a lock file that marks the worker as alive.

    The lock is flock(2): the kernel releases it when the worker dies, however that happens.
    """

    def __init__(self, root: Path, worker_id: str) -> None:
        self._root = root
        self.worker_dir = root / worker_id
        self._lock: int | None = None

    def open(self) -> None:
        """Create the folder, and remove the folders of dead workers. Raises OSError."""
        self._root.mkdir(parents=True, exist_ok=True)
        self._lock = self._create_lock()
        self.worker_dir.mkdir()
        for lock in self._root.glob(f"*{SUFFIX}"):
            with suppress(OSError):  # its worker is alive, or another worker removed it
                _remove_if_worker_is_dead(lock)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.worker_dir, ignore_errors=True)
        if self._lock is not None:
            self.worker_dir.with_suffix(SUFFIX).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def attempt_dir(self, job_id: str, attempt: int, suffix: str = "") -> Iterator[Path]:
        """The path for one attempt's folder, which the attempt creates; removed at the exit."""
        folder = self.worker_dir / f"{job_id}-attempt-{attempt}{suffix}"
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _create_lock(self) -> int:
        # Renamed once it is locked: no other worker finds a lock file that is not held yet.
        unnamed = self.worker_dir.with_suffix(".new")
        descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        unnamed.rename(self.worker_dir.with_suffix(SUFFIX))
        return descriptor


def _remove_if_worker_is_dead(lock: Path) -> None:
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder = lock.with_suffix("")
        shutil.rmtree(folder, ignore_errors=True)
        lock.unlink(missing_ok=True)
        log.info("removed the scratch folder of the dead worker %s", folder.name)

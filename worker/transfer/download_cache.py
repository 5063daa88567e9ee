"""The datasets and code that jobs of this machine have used, bounded in size.

A file has the name `content_name` of its SHA-256, or that of a version of an object of a store
(`worker.transfer.data_object`).

All workers with the same scratch folder share them. Locks are flock(2), which the kernel releases
when a worker dies: shared while a job uses a file, exclusive while it is downloaded or deleted.
"""

import fcntl
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

FOLDER: Final = "dataset-cache"
"""In the scratch folder."""
DEFAULT_MAX_BYTES: Final = 50 * 2**30
POLL_S: Final = 0.1
"""Pause between two tries to get a lock."""
CONTENT: Final = "content"
RESERVED: Final = "reserved"
"""A sparse file of the size of the content, written before the download: it counts at once."""
LOCK_SUFFIX: Final = ".lock"
ROOM_LOCK: Final = "room"
"""The lock for making room, so that two downloads do not use the same room."""


def content_name(sha256: str) -> str:
    """The name of a file with this SHA-256."""
    return f"sha256-{sha256}"


class CacheWaitAbandoned(Exception):
    """The attempt ended while it waited for a file that another one was downloading."""


@dataclass(frozen=True)
class CachedFile:
    """A file in the cache, which is kept until `close`. It must only be read."""

    path: Path
    _lock: int

    def close(self) -> None:
        """Allow its deletion."""
        os.close(self._lock)


class DownloadCache:
    """The cached files of one machine.

    Args:
        folder: where they are; created at the first use.
        max_bytes: the size of all files. Files in use are kept, also if they exceed it.
    """

    def __init__(self, folder: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._folder, self.max_bytes = folder, max_bytes

    def acquire(
        self,
        name: str,
        size_bytes: int,
        fetch: Callable[[Path], object],
        has_ended: Callable[[float], bool],
    ) -> CachedFile:
        """The file with that name, downloaded by `fetch` unless it is there already.

        Args:
            name: names the file and its bytes.
            size_bytes: its size.
            fetch: writes it to a path and checks its bytes.
            has_ended: waits for some seconds; true if the attempt has ended.

        Raises:
            CacheWaitAbandoned: the attempt ended while another one was downloading the file.
            OSError: the disk is full. Also raises what `fetch` raises.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        entry = self._folder / name
        while True:
            lock = self._open_lock(name)
            try:
                if _try_lock(lock, fcntl.LOCK_SH) and self._is_current(lock, name):
                    if _is_whole(entry, size_bytes):
                        os.utime(lock)  # the least recently used file is deleted first
                        cached, lock = CachedFile(entry / CONTENT, lock), -1
                        return cached
                    if _try_lock(lock, fcntl.LOCK_EX) and self._is_current(lock, name):
                        self._download(entry, size_bytes, fetch)
                        continue  # another worker may delete it before the lock is shared again
                if has_ended(POLL_S):
                    raise CacheWaitAbandoned
            finally:
                if lock >= 0:
                    os.close(lock)

    def _download(self, entry: Path, size_bytes: int, fetch: Callable[[Path], object]) -> None:
        """Download into an entry whose exclusive lock is held."""
        shutil.rmtree(entry, ignore_errors=True)  # what a worker that died has left there
        try:
            with self._making_room():
                self._make_room(size_bytes)
                entry.mkdir(mode=0o700)
                with (entry / RESERVED).open("wb") as file:
                    file.truncate(size_bytes)
            fetch(entry / CONTENT)
            (entry / CONTENT).chmod(0o444)
        except BaseException:
            shutil.rmtree(entry, ignore_errors=True)
            raise

    def _make_room(self, size_bytes: int) -> None:
        """Delete the least recently used files that no job uses, until there is room."""
        size_of_lock = {lock: self._size(lock) for lock in self._folder.glob(f"*{LOCK_SUFFIX}")}
        total = sum(size_of_lock.values())
        for lock in sorted((lock for lock in size_of_lock if size_of_lock[lock]), key=_modified_at):
            if total + size_bytes <= self.max_bytes:
                return
            if self._delete(lock.stem):
                total -= size_of_lock[lock]

    def _delete(self, name: str) -> bool:
        """Delete a file and its lock; False if a job uses it."""
        lock = self._open_lock(name)
        try:
            if not _try_lock(lock, fcntl.LOCK_EX) or not self._is_current(lock, name):
                return False
            shutil.rmtree(self._folder / name, ignore_errors=True)
            self._lock_path(name).unlink(missing_ok=True)
        finally:
            os.close(lock)
        log.info("deleted %s from the cache", name)
        return True

    def _size(self, lock: Path) -> int:
        with suppress(OSError):
            return (self._folder / lock.stem / RESERVED).stat().st_size
        return 0

    def _lock_path(self, name: str) -> Path:
        return self._folder / f"{name}{LOCK_SUFFIX}"

    def _open_lock(self, name: str) -> int:
        return os.open(self._lock_path(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _is_current(self, lock: int, name: str) -> bool:
        """Whether the lock file was not deleted between its opening and its locking."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(lock), self._lock_path(name).stat())
        return False

    @contextmanager
    def _making_room(self) -> Iterator[None]:
        lock = os.open(self._folder / ROOM_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held only while files are deleted
            yield
        finally:
            os.close(lock)


def _try_lock(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_whole(entry: Path, size_bytes: int) -> bool:
    with suppress(OSError):
        return (entry / CONTENT).stat().st_size == size_bytes
    return False


def _modified_at(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0

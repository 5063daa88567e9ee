"""UploadProgress: how far the uploads of an attempt are, and whether they still advance."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final

STALL_S: Final = 120.0
"""Uploads that make no progress for this long have failed."""
MIN_BYTES_PER_S: Final = 1_000_000
"""The rate below which the bytes of a file may count as no progress: some stores report their
progress in large parts, or only once a file is complete."""


@dataclass(frozen=True)
class PendingUploads:
    """The files that are not stored yet, the one that is being stored first.

    Args:
        files: Their paths in the trainer's output folder.
        size_bytes: Their total size.
        sent_bytes: How many of these are stored.
    """

    files: tuple[str, ...]
    size_bytes: int
    sent_bytes: int

    def __str__(self) -> str:
        first, more_files = self.files[0], len(self.files) - 1
        more = f" and {more_files} more file{'s' if more_files > 1 else ''}" if more_files else ""
        sent = f"{_size(self.sent_bytes)} of {_size(self.size_bytes)} were stored"
        return f"{first}{more} ({sent})"


class UploadProgress:
    """The progress of the file that is being stored, over all tries.

    Args:
        stall_s: How long uploads may make no progress.
        clock: Returns seconds, as `time.monotonic`.
    """

    def __init__(
        self, stall_s: float = STALL_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stall_s, self._clock = stall_s, clock
        self._size_bytes = self._sent_bytes = 0
        self._has_failed = self._is_sent = False
        self._advanced_at = clock()
        self._lock = Lock()

    @property
    def sent_bytes(self) -> int:
        """How many bytes of the current file are stored."""
        return self._sent_bytes

    def begin(self, size_bytes: int) -> None:
        """A file of this size comes next, or the same file after a failed try."""
        with self._lock:
            self._size_bytes, self._has_failed, self._is_sent = size_bytes, False, False

    def report(self, sent_bytes: int) -> None:
        """Record the number of stored bytes; only more than in earlier tries is progress."""
        with self._lock:
            if sent_bytes > self._sent_bytes:
                self._sent_bytes, self._advanced_at = sent_bytes, self._clock()

    def sent(self) -> None:
        """The storage has the file; what is missing is its row, and a database may be away."""
        with self._lock:
            self._is_sent = True

    def fail(self) -> None:
        """The try has failed."""
        with self._lock:
            self._has_failed = True

    def end(self) -> None:
        """The file is stored, or given up."""
        with self._lock:
            self._size_bytes = self._sent_bytes = 0
            self._has_failed = self._is_sent = False
            self._advanced_at = self._clock()

    def restart(self) -> None:
        """Count from now: whoever waits for the uploads begins to wait."""
        with self._lock:
            self._advanced_at = self._clock()

    @property
    def is_stalled(self) -> bool:
        """Whether there was no progress for too long.

        A try that still runs may take the time that its remaining bytes need at
        `MIN_BYTES_PER_S` in addition.
        """
        with self._lock:
            if self._is_sent:
                return False
            remaining = 0 if self._has_failed else max(self._size_bytes - self._sent_bytes, 0)
            limit_s = self._stall_s + remaining / MIN_BYTES_PER_S
            return self._clock() - self._advanced_at > limit_s


def _size(size_bytes: int) -> str:
    """A size in the unit that fits it, such as 1.6 GB."""
    size = float(size_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size_bytes} bytes" if unit == "bytes" else f"{size:.1f} {unit}"

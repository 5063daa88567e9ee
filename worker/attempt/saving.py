"""SavingProgress: whether a trainer that was asked to stop still writes its checkpoint."""

import os
from pathlib import Path
from typing import Final

MIN_BYTES_PER_S: Final = 1_000_000
"""A trainer that writes more slowly gets no more time: its code could write for ever."""
BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`."""


class SavingProgress:
    """Watches how much of the disk the files in a trainer's folder take.

    Args:
        window_s: Writing has ended once nothing was added for this long.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._first_bytes: int | None = None
        self._most_bytes = 0
        self._began_at = self._grew_at = 0.0

    def advances(self, folder: Path, now: float) -> bool:
        """Whether more was written within the window before `now` (monotonic seconds).

        Call it regularly; the first call only takes the size.
        """
        size_bytes = _size_of(folder)
        if self._first_bytes is None:
            self._first_bytes = self._most_bytes = size_bytes
            self._began_at = now
        if size_bytes > self._most_bytes:
            self._most_bytes, self._grew_at = size_bytes, now
        written_bytes = self._most_bytes - self._first_bytes
        limit_s = self._window_s + written_bytes / MIN_BYTES_PER_S
        is_growing = written_bytes > 0 and now - self._grew_at <= self._window_s
        return is_growing and now - self._began_at <= limit_s


def _size_of(folder: Path) -> int:
    """The disk space of the files below a folder; links are not followed, files may vanish."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * BLOCK_BYTES
            except OSError:
                continue
    return total

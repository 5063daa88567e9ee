"""SavingProgress: whether a trainer that was asked to stop still writes its checkpoint."""

import os
from pathlib import Path


class SavingProgress:
    """Watches the size of the files in a trainer's folder.

    Args:
        window_s: Writing has ended once the size has not changed for this long.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._size_bytes: int | None = None
        self._changed_at: float | None = None

    def advances(self, folder: Path, now: float) -> bool:
        """Whether files were written within the window before `now` (monotonic seconds).

        Call it regularly; the first call only takes the size.
        """
        size_bytes = _size_of(folder)
        if self._size_bytes is not None and size_bytes != self._size_bytes:
            self._changed_at = now
        self._size_bytes = size_bytes
        return self._changed_at is not None and now - self._changed_at <= self._window_s


def _size_of(folder: Path) -> int:
    """The size of all files below a folder, links not followed; files may vanish meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total

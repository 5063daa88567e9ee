"""What a worker measures of itself: steps stored, how long they took to get there, how busy."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Meter:
    """Counts for all slots together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps = 0
        self._lag_s = 0.0
        self._busy = 0

    def stored(self, steps: int, lag_s: float) -> None:
        """So many steps are committed, the first of them `lag_s` after it was read."""
        with self._lock:
            self._steps += steps
            self._lag_s = max(self._lag_s, lag_s)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """One slot trains."""
        with self._lock:
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def reading(self) -> dict[str, Any]:
        """The counts; the lag is the longest one since the last reading."""
        with self._lock:
            lag_s, self._lag_s = self._lag_s, 0.0
            return {"steps_total": self._steps, "lag_s": lag_s, "busy": self._busy}

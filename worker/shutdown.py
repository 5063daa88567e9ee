"""Shutdown: that a worker stops, and until when its jobs may still store their files."""

import math
import threading
import time
from typing import Final

from infra.defaults import DRAIN_TIMEOUT_S
from worker.database_retry import RetryingDatabase

GRACE_S: Final = 10.0
"""How long a trainer may take after SIGTERM to finish its block and save a checkpoint."""

DATABASE_TIMEOUT_S: Final = 5.0
"""How long a worker that shuts down tries to reach its database."""


class Shutdown(threading.Event):
    """Set once the worker shuts down.

    Args:
        timeout_s: How long the uploads of its jobs may take from then on.
    """

    def __init__(self, timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        super().__init__()
        self.timeout_s = timeout_s
        self._began = math.inf

    def set(self) -> None:
        """Begin to shut down; a repeated call does not extend the deadline."""
        self._began = min(self._began, time.monotonic())
        super().set()

    def clear(self) -> None:
        """Take it back."""
        super().clear()
        self._began = math.inf

    def gives_up_on(self, database: RetryingDatabase) -> bool:
        """Whether the worker shuts down and must not wait: for files, or for its database."""
        return self.is_over or (self.is_set() and database.longest_write_s > DATABASE_TIMEOUT_S)

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self._began + self.timeout_s

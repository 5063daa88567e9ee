"""DecodingThreads: decodes several images at the same time; Pillow releases the GIL."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final

MAX_THREADS: Final = 8


class DecodingThreads:
    """A pool with a thread for each core; it starts when it is first needed.

    Not before, since a process that forks must have one thread.
    """

    def __init__(self) -> None:
        self._count = min(MAX_THREADS, len(os.sched_getaffinity(0)))
        self._pool: ThreadPoolExecutor | None = None
        self._lock = Lock()

    def run(self, decode: Callable[[int], None], count: int) -> None:
        """Call `decode` for 0 to `count` - 1. Raises the error of the first call that fails."""
        if count < 2 or self._count == 1:
            for item in range(count):
                decode(item)
            return
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._count, thread_name_prefix="image-decoder")
            pool = self._pool
        for _ in pool.map(decode, range(count)):
            pass

    def close(self) -> None:
        """End the threads."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None

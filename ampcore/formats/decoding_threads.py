"""DecodingThreads: decodes several images at the same time; Pillow releases the GIL."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final

MAX_THREADS: Final = 8
CHUNKS_PER_THREAD: Final = 8
"""Items are handed to threads in chunks: a task for each item would cost as much as a small one."""
SMALL_PIXELS: Final = 64 * 64
"""Images up to this size are decoded faster by one thread: most of the time is Python's own."""


class DecodingThreads:
    """A pool with a thread for each core; it starts when it is first needed.

    Not before, since a process that forks must have one thread.
    """

    def __init__(self) -> None:
        self._count = min(MAX_THREADS, len(os.sched_getaffinity(0)))
        self._pool: ThreadPoolExecutor | None = None
        self._lock = Lock()

    def run(self, decode: Callable[[int], None], count: int, *, pixels: int | None = None) -> None:
        """Call `decode` for 0 to `count` - 1. Raises the error of the first call that fails.

        Args:
            decode: Called in any thread and order.
            count: The number of items.
            pixels: The size of an encoded image; None if it is not known.
        """
        is_small = pixels is not None and pixels <= SMALL_PIXELS
        if count < 2 or self._count == 1 or is_small:
            _decode_range(decode, range(count))
            return
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._count, thread_name_prefix="image-decoder")
            pool = self._pool
        size = -(-count // (self._count * CHUNKS_PER_THREAD))
        chunks = [range(start, min(start + size, count)) for start in range(0, count, size)]
        for _ in pool.map(lambda chunk: _decode_range(decode, chunk), chunks):
            pass

    def close(self) -> None:
        """End the threads."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None


def _decode_range(decode: Callable[[int], None], items: range) -> None:
    for item in items:
        decode(item)

"""DecodingThreads: decodes several images at the same time; Pillow releases the GIL."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final

from ampspec.documents.text import join_names
from ampspec.errors import InvalidData

MAX_THREADS: Final = 8
MAX_BAD: Final = 20
CHUNKS_PER_THREAD: Final = 8
"""Threads get items in chunks: a task per item costs as much as decoding a small image."""
SMALL_PIXELS: Final = 64 * 64
"""Images up to this size are decoded faster by one thread: Python itself takes most of the time."""


class DecodingThreads:
    """A pool with a thread for each core, started on first use.

    Not earlier, since a process that forks must have only one thread.
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

    def run_all(
        self, decode: Callable[[int], None], count: int, name: str, *, pixels: int | None = None
    ) -> None:
        """Like `run`, but continue after errors. Raises InvalidData, which names all bad items.

        Args:
            decode: Called in any thread and order.
            count: The number of items.
            name: The source of the items, for messages.
            pixels: The size of an encoded image; None if it is not known.
        """
        errors: dict[int, InvalidData] = {}

        def attempt(item: int) -> None:
            try:
                decode(item)
            except InvalidData as error:
                errors[item] = error

        self.run(attempt, count, pixels=pixels)
        raise_bad_images(name, [errors[item] for item in sorted(errors)])

    def close(self) -> None:
        """End the threads."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None


def _decode_range(decode: Callable[[int], None], items: range) -> None:
    for item in items:
        decode(item)


def raise_bad_images(name: str, errors: Sequence[InvalidData]) -> None:
    """Raise InvalidData if there are errors: the only error, or one that names the first 20."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        places = (error.source if error.field is None else error.field for error in errors)
        bad = [f"{place} ({error.received})" for place, error in zip(places, errors, strict=True)]
        received = f"{len(errors):,} others: {join_names(bad, MAX_BAD)}"
        raise InvalidData(name, None, expected="undamaged images", received=received)

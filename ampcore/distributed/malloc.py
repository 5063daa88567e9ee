"""Lets the C library keep freed memory, which the next message between ranks uses again.

Source: glibc, mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.
"""

import ctypes
import sys
from typing import Final

M_TRIM_THRESHOLD: Final = -1  # malloc.h
M_MMAP_THRESHOLD: Final = -3

MMAP_BYTES: Final = 32 * 2**20
"""Larger blocks are mapped one by one: glibc's own limit for the threshold that it adjusts."""
KEPT_BYTES: Final = 2 * MMAP_BYTES
"""How much free memory at the end of a heap is kept, in glibc's own proportion."""


def keep_freed_memory() -> None:
    """Keep up to `KEPT_BYTES` of freed memory in each heap; without glibc nothing happens.

    TensorFlow copies a message several times, each time into new memory. By default glibc gives
    freed memory back to the kernel as soon as it is twice the size of the largest block: then every
    message of an all-reduce costs a page fault for each 4 kB, a quarter of its computing time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MMAP_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)

"""Keep the memory of the API process small: configure the allocators of glibc and Arrow."""

import ctypes
import gc
import os
import sys
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_MMAP_THRESHOLD_BYTES: Final = 128 * 1024
"""Larger blocks come from the system and go back to it."""
_TRIM_THRESHOLD_BYTES: Final = 1024 * 1024
"""Free memory at the end of an arena that is kept: each piece of an upload needs two blocks of
nearly 128 KiB, which would go back to the system after it, and cost page faults for the next."""


def limit_memory() -> None:
    """Call this before threads start and before pyarrow is imported.

    The garbage collector pauses until `release_memory`: nearly all objects that the imports create
    stay, and looking for others takes a sixth of their time.
    """
    gc.disable()
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        # Otherwise each thread would have its own arena, and never return its memory.
        libc.mallopt(_M_ARENA_MAX, 2)
        libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)


def release_memory() -> None:
    """Return free memory to the system; call it once after the imports."""
    gc.collect()
    gc.freeze()
    gc.enable()
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)

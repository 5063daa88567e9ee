"""Keep the API process small: glibc and Arrow trade memory for a speed that we do not need."""

import ctypes
import gc
import os
import sys
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_GIVE_BACK_FROM_BYTES: Final = 128 * 1024


def keep_small() -> None:
    """To be called before threads start and before pyarrow is loaded."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        # Each thread would otherwise get an arena of its own, and keep what it once needed.
        libc.mallopt(_M_ARENA_MAX, 2)
        libc.mallopt(_M_MMAP_THRESHOLD, _GIVE_BACK_FROM_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _GIVE_BACK_FROM_BYTES)


def give_back() -> None:
    """Return what the imports left free to the system; for once after the start."""
    gc.collect()
    gc.freeze()
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)

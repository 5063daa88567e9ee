"""Has TensorFlow's profiler record every operation of the executor, short ones too.

The executor takes an operation of less than 8,000 cycles (about 3 µs) for a cheap one once it has
run about 90 times, and records cheap ones at the level "verbose" only. The option of that name,
`host_tracer_level`, has no effect in TensorFlow 2.21: a session always records at the level "info".
Without this module a profile of small layers would contain some of their operations or none,
depending on how often they had run before.

Source: tensorflow/core/common_runtime/executor.cc (KernelStats), tsl/profiler/lib/traceme.h.
"""

import ctypes
from functools import cache
from typing import Final

import tensorflow as tf

VERBOSE: Final = 3
LEVEL: Final = "_ZN3tsl8profiler8internal13g_trace_levelE"
"""The exported variable `tsl::profiler::internal::g_trace_level`; -1 while nothing is recorded."""
LIBRARY_FLAG: Final = "-l:"


def record_all_operations() -> bool:
    """Raise the level of the profile in progress; its end resets it.

    Returns:
        Whether short operations are recorded; False with a TensorFlow that has no such level.
    """
    level = _level()
    if level is None or level.value < 0:
        return False
    level.value = VERBOSE
    return True


@cache
def _level() -> ctypes.c_int | None:
    names = [flag for flag in tf.sysconfig.get_link_flags() if flag.startswith(LIBRARY_FLAG)]
    for name in names:
        try:
            library = ctypes.CDLL(f"{tf.sysconfig.get_lib()}/{name.removeprefix(LIBRARY_FLAG)}")
            return ctypes.c_int.in_dll(library, LEVEL)
        except (OSError, ValueError):
            continue
    return None

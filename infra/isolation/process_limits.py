"""Limits of memory, CPU time and files that a process sets for itself."""

import resource
import signal
from types import FrameType
from typing import Final

GRACE_S: Final = 10
"""After the limit of CPU time, until the kernel ends the process."""


class OutOfCpuTime(BaseException):
    """The process has used its CPU time. No `except Exception` of a library catches it."""


def limit_resources(memory_bytes: int, cpu_s: int, file_bytes: int) -> None:
    """Set limits that the process cannot raise again; it writes no core dump.

    Args:
        memory_bytes: private memory. Files that are mapped into memory do not count.
        cpu_s: CPU time. At its end OutOfCpuTime is raised once, in the main thread.
        file_bytes: the largest file that it may write. More is an OSError.
    """
    signal.signal(signal.SIGXCPU, _out_of_cpu_time)
    for kind, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_DATA, memory_bytes, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s, cpu_s + GRACE_S),
        (resource.RLIMIT_FSIZE, file_bytes, file_bytes),
    ):
        limits = soft, hard
        _, highest = resource.getrlimit(kind)
        if highest != resource.RLIM_INFINITY:
            limits = min(soft, highest), min(hard, highest)
        resource.setrlimit(kind, limits)


def _out_of_cpu_time(number: int, frame: FrameType | None) -> None:
    # The kernel repeats the signal each second; a second error would disturb the first one.
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    raise OutOfCpuTime

"""Whether this process does anything: computes, reads or writes, or waits for a disk.

A thread that hangs in Python (a lock that nobody releases, a sleep) does none of it. Which thread
works does not matter: while the training thread waits for TensorFlow, TensorFlow's threads compute.

Source: Linux, proc_pid_io(5), proc_pid_stat(5).
"""

import time
from pathlib import Path
from typing import Final

ACTIVE_SHARE: Final = 0.05
"""The share of one core; heartbeats and watches take less than a hundredth."""
ACTIVE_BYTES: Final = 64 * 1024


class ProcessActivity:
    """Seconds since this process has last done anything, between calls of `idle_s`.

    Args:
        thread_id: The training thread (`threading.get_native_id`), which may wait for a disk.
    """

    def __init__(self, thread_id: int) -> None:
        self._state_file = Path(f"/proc/self/task/{thread_id}/stat")
        self._measured_at, self._cpu_s, self._io_bytes = self._measure()
        self._idle_s = 0.0

    def idle_s(self) -> float:
        """For how long it has done nothing, as far as calls of this function show.

        Call it at least each second: longer times, in which the process may have been suspended,
        count as one second.
        """
        now, cpu_s, io_bytes = self._measure()
        passed_s = now - self._measured_at
        is_active = (
            cpu_s - self._cpu_s >= ACTIVE_SHARE * passed_s
            or io_bytes - self._io_bytes >= ACTIVE_BYTES
            or self._waits_for_a_disk()
        )
        self._idle_s = 0.0 if is_active else self._idle_s + min(passed_s, 1.0)
        self._measured_at, self._cpu_s, self._io_bytes = now, cpu_s, io_bytes
        return self._idle_s

    def _measure(self) -> tuple[float, float, int]:
        return time.monotonic(), time.process_time(), _io_bytes()

    def _waits_for_a_disk(self) -> bool:
        try:
            return self._state_file.read_text().rpartition(") ")[2].startswith("D")
        except OSError:
            return False


def _io_bytes() -> int:
    """What the process has read and written, by system calls other than those of sockets."""
    try:
        lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line[:5] in ("rchar", "wchar"))

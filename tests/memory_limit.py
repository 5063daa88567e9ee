"""A limit of the memory that a process may use, enforced while it runs.

RLIMIT_AS and RLIMIT_DATA count what TensorFlow only reserves, such as the stacks of its threads,
and a control group needs the rights of root. Here a thread reads how much anonymous memory is
resident, which is what the system cannot take back.
"""

import os
import threading
from pathlib import Path

EXCEEDED = 137
"""The exit code of a process that has used more, as after the kernel's out-of-memory killer."""
PERIOD_S = 0.005


class MemoryLimit:
    """Ends this process as soon as it has this much more memory than now.

    Args:
        limit_bytes: The limit.
        on_exceeded: A file that is then written.
    """

    def __init__(self, limit_bytes, on_exceeded):
        self._before, self._limit, self._file = resident_bytes(), limit_bytes, on_exceeded
        self.peak_bytes = 0
        """The most that it had beyond what it had before."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        never = threading.Event()
        while not never.wait(PERIOD_S):
            self.peak_bytes = max(self.peak_bytes, resident_bytes() - self._before)
            if self.peak_bytes > self._limit:
                self._file.write_text(str(self.peak_bytes))
                os._exit(EXCEEDED)


def resident_bytes():
    """The resident memory of this process that no file backs."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [found] = [line.split()[1] for line in lines if line.startswith("RssAnon:")]
    return int(found) * 1024

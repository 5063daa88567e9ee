"""Detects whether the kernel's OOM killer has just killed a process of this worker's cgroup.

Source: Linux, Documentation/admin-guide/cgroup-v2.rst, `memory.events`.
"""

import time
from collections import deque
from pathlib import Path
from typing import Final

SAMPLE_INTERVAL_S: Final = 2.0


def memory_events_file(
    proc: Path = Path("/proc"), mount: Path = Path("/sys/fs/cgroup")
) -> Path | None:
    """The `memory.events` file of this process's cgroup; None without cgroup v2."""
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("0::/"):
            file = mount / line.removeprefix("0::/") / "memory.events"
            return file if file.is_file() else None
    return None


class OomKillCounter:
    """Compares the cgroup's number of OOM kills with an earlier sample.

    The older of the last two samples is the baseline: the kernel counts a kill a moment before
    the process is seen to be dead, so the newest sample may include it already. Kills before the
    baseline, such as those of other slots, do not count.
    """

    def __init__(self, file: Path | None, *, interval_s: float = SAMPLE_INTERVAL_S) -> None:
        self._file, self._interval_s = file, interval_s
        self._seen: deque[int] = deque([self._count()], maxlen=2)
        self._sampled_at = time.monotonic()

    def sample(self) -> None:
        """Take a sample when the interval has passed; call while the process lives."""
        if time.monotonic() - self._sampled_at >= self._interval_s:
            self._sampled_at = time.monotonic()
            self._seen.append(self._count())

    def has_increased(self) -> bool:
        """Whether a process was killed since the baseline."""
        return self._count() > self._seen[0]

    def _count(self) -> int:
        try:
            lines = self._file.read_text(encoding="utf-8").splitlines() if self._file else []
            counts = dict(line.split() for line in lines)
            return int(counts.get("oom_kill", 0))
        except (OSError, ValueError):
            return 0

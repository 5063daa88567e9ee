"""Whether the system has just killed a process of this worker's, since memory ran out.

Source: Linux, Documentation/admin-guide/cgroup-v2.rst, `memory.events`.
"""

import time
from collections import deque
from pathlib import Path
from typing import Final

EVERY_S: Final = 2.0


def events_file(proc: Path = Path("/proc"), mount: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """The file with this process's count; None where there is none: no Linux, or cgroup v1."""
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("0::/"):
            file = mount / line.removeprefix("0::/") / "memory.events"
            return file if file.is_file() else None
    return None


class MemoryKills:
    """Compares the count of such kills with what it was when all was still well.

    Of the two last looks the older one is kept as the mark: a kill is counted a moment before
    its process is seen to be dead. Other slots' kills from before then do not count.
    """

    def __init__(self, file: Path | None, *, every_s: float = EVERY_S) -> None:
        self._file, self._every_s = file, every_s
        self._seen: deque[int] = deque([self._count()], maxlen=2)
        self._looked_at = time.monotonic()

    def look(self) -> None:
        """Take a new mark when it is time; call while the process lives."""
        if time.monotonic() - self._looked_at >= self._every_s:
            self._looked_at = time.monotonic()
            self._seen.append(self._count())

    def has_risen(self) -> bool:
        """Whether a process was killed since the mark."""
        return self._count() > self._seen[0]

    def _count(self) -> int:
        try:
            lines = self._file.read_text(encoding="utf-8").splitlines() if self._file else []
            counts = dict(line.split() for line in lines)
            return int(counts.get("oom_kill", 0))
        except (OSError, ValueError):
            return 0

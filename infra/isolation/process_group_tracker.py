"""A child process that kills the process groups of trainers once their supervisor has died.

A trainer dies with its supervisor (a worker, or the launcher of ranks), however that ends;
processes that the trainer started do not. The supervisor registers every trainer's process group
with this child, which kills the registered groups when its standard input ends. This file runs as
a script and imports the standard library only.
Same pattern: multiprocessing.resource_tracker.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

PROGRAM: Final = (sys.executable, "-I", "-S", __file__)


class ProcessGroupTracker:
    """Registers process groups that must not outlive this process; starts the child when needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def register(self, group: int) -> None:
        """Have the group killed when this process dies."""
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    PROGRAM, stdin=subprocess.PIPE, start_new_session=True, env={}
                )
            self._send(f"+{group}\n")

    def unregister(self, group: int) -> None:
        """Forget a group that has ended: its id may be reused."""
        with self._lock:
            self._send(f"-{group}\n")

    def close(self) -> None:
        """End the child process, and every group that is still registered."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            with suppress(BrokenPipeError):
                process.communicate()

    def _send(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it was killed: the worker continues without it
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()


def kill_groups_at_eof(lines: Iterable[str]) -> None:
    """Read `+group` and `-group` lines, and kill the remaining groups when they end."""
    groups: set[int] = set()
    for line in lines:
        number = int(line[1:])
        groups = groups | {number} if line[0] == "+" else groups - {number}
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    kill_groups_at_eof(sys.stdin)

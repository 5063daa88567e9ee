"""A small process that outlives this worker by a moment, to end what its trainers left behind.

A trainer dies with its worker, whatever kills that one; what the trainer itself has started
does not. This process is told of every trainer's group, and kills them all when its standard
input ends. It is run as a file of its own, with nothing but the standard library.
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


class Guard:
    """Knows the process groups that must not outlive this process; starts with the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """From now on the group dies when this process does."""
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    PROGRAM, stdin=subprocess.PIPE, start_new_session=True, env={}
                )
            self._tell(f"+{group}\n")

    def release(self, group: int) -> None:
        """The group is gone, and its number may become somebody else's."""
        with self._lock:
            self._tell(f"-{group}\n")

    def close(self) -> None:
        """End the small process, and every group that was not released."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            with suppress(BrokenPipeError):
                process.communicate()

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):  # somebody killed it: we live without
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()


def stand_guard(lines: Iterable[str]) -> None:
    """Kill the groups that are there when the lines end."""
    groups: set[int] = set()
    for line in lines:
        number = int(line[1:])
        groups = groups | {number} if line[0] == "+" else groups - {number}
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    stand_guard(sys.stdin)

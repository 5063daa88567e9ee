"""A child process that never outlives us, whatever happens to either."""

import ctypes
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1
# Loaded here: nothing may be imported between fork and exec.
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


class Child:
    """One program, in a session of its own, so that a Ctrl-C in the terminal is ours alone.

    On Linux it is killed when the thread that started it ends, however that happens.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log_file: Path,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._command = command
        self._log_file = log_file
        self._stdin = stdin
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process while it runs."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """False before the start and after the end."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How the process ended; minus the signal that ended it."""
        return self._process.poll() if self._process is not None else None

    def start(self) -> None:
        """Start the program, again when it has ended."""
        with self._log_file.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                # The folder of our packages: nothing in the caller's may stand in for them.
                cwd=Path(__file__).parents[2],
                start_new_session=True,
                preexec_fn=partial(_die_with, os.getpid()),  # noqa: PLW1509 - a system call only
            )
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it ended before it read its input
                self._process.stdin.write(self._stdin)
                self._process.stdin.close()

    def wait(self) -> int:
        """Let the program come to its end by itself, and tell how it ended."""
        return self._process.wait() if self._process is not None else 0

    def stop(self, grace_s: float) -> None:
        """End the program: ask, wait, then kill its whole group."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            log.warning("%s did not stop in %g s and is killed", self.name, grace_s)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _die_with(parent: int) -> None:
    """Runs in the child between fork and exec."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

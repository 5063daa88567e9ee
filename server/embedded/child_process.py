"""A child process that never outlives its parent."""

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
# Loaded at import: nothing may be imported between fork and exec.
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


class ChildProcess:
    """One program in its own session, so that Ctrl-C in the terminal reaches only the parent.

    On Linux it is killed when the thread that started it ends for any reason.
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
        """The exit code; negative for a signal."""
        return self._process.poll() if self._process is not None else None

    def start(self) -> None:
        """Start the program, or start it again after it has ended."""
        with self._log_file.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                # The folder of our packages: files in the current folder must not shadow them.
                cwd=Path(__file__).parents[2],
                start_new_session=True,
                preexec_fn=partial(_die_with_parent, os.getpid()),  # noqa: PLW1509 - a system call only
            )
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # the process ended before it read its input
                self._process.stdin.write(self._stdin)
                self._process.stdin.close()

    def wait(self) -> int:
        """Wait until the program ends, and return its exit code."""
        return self._process.wait() if self._process is not None else 0

    def stop(self, grace_s: float) -> None:
        """Stop the program: SIGTERM, wait, then SIGKILL for its process group."""
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


def _die_with_parent(parent: int) -> None:
    """Runs in the child between fork and exec."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the call
            os._exit(1)

"""One process of the stack under test, and how to start, stop, kill, suspend and resume it."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.processes import has_ended
from tests.waiting import DEADLINE_S


class Process:
    """A Python program with a log file; a restart uses the same settings."""

    def __init__(
        self, name: str, log_file: Path, program: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log_file = log_file
        self._command = [sys.executable, *program]
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                # Not where pytest runs: its folder may hold other packages than PYTHONPATH says.
                cwd=self.log_file.parent,
            )

    @property
    def started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    @property
    def pid(self) -> int:
        return self.started.pid

    @property
    def running(self) -> bool:
        return self.started.poll() is None

    @property
    def log(self) -> str:
        """The last 60 log lines without access-log lines; empty when the file is deleted."""
        if not self.log_file.exists():
            return ""
        lines = self.log_file.read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if "server.http.access" not in line][-60:])

    def ask_to_stop(self) -> None:
        """Send SIGTERM, as an init system does."""
        os.kill(self.pid, signal.SIGTERM)

    def wait(self) -> int:
        """Wait for its exit code."""
        return self.started.wait(DEADLINE_S)

    def stop(self) -> int:
        self.ask_to_stop()
        return self.wait()

    def kill(self) -> None:
        """Send SIGKILL to this process only, not to its children."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def suspend(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        if self.running:
            os.kill(self.pid, signal.SIGCONT)

    def descendants(self) -> list[psutil.Process]:
        """Its children and their descendants."""
        return psutil.Process(self.pid).children(recursive=True)


def resume(process: psutil.Process) -> None:
    """Resume a stopped process."""
    with suppress(psutil.NoSuchProcess):
        if process.status() == psutil.STATUS_STOPPED:
            process.resume()


def processes_of(temporary: Path) -> list[psutil.Process]:
    """Every living process with this TMPDIR, orphans included."""

    def is_ours(process: psutil.Process) -> bool:
        try:
            return process.environ().get("TMPDIR") == str(temporary) and not has_ended(process)
        except (psutil.Error, OSError):  # another user's process
            return False

    return [process for process in psutil.process_iter() if is_ours(process)]

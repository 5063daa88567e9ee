"""The fork server's reports about one trainer: process id, exit code and peak memory.

Source of the subreaper: Linux, prctl(2), PR_SET_CHILD_SUBREAPER.
"""

import ctypes
import json
import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from worker.trainer.fork_server import REAP, ForkServerProcess

log = logging.getLogger(__name__)

READ_BYTES: Final = 4096
PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h
REPORT_TIMEOUT_S: Final = 30.0
"""How long the fork server may take to report an exit before it counts as stuck and is killed."""


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that it can wait for their groups.

    Linux only; elsewhere orphans go to the init process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


class TrainerStatus:
    """The worker's end of a trainer's status socket (`worker.trainer.child.fork_server`).

    When the fork server dies, Linux kills its trainers. Where this process is a subreaper, they
    become its children, and it reads their exit codes itself.
    """

    def __init__(self, connection: socket.socket, server: ForkServerProcess) -> None:
        self.pid: int | None = None
        """None until the process exists."""
        self.exit_code: int | None = None
        """None until it is known; negative for a signal."""
        self.peak_bytes = 0
        """Its peak memory; known once it is reaped."""
        self.error = ""
        """Why no process was forked."""
        self.is_closed = False
        """The fork server has closed the connection."""
        connection.setblocking(False)
        self._connection, self._server = connection, server
        self._incomplete_line = b""
        self._was_reported = False
        self._killed_at: float | None = None

    @property
    def died_with_server(self) -> bool:
        """Whether it ended because the fork server did."""
        return self.is_closed and self.exit_code is not None and not self._was_reported

    def poll(self) -> None:
        """Read the reports that have arrived."""
        while not self.is_closed:
            try:
                data = self._connection.recv(READ_BYTES)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            self._read_lines(data)
        if self.exit_code is None:
            self._infer_exit()

    def reap(self) -> None:
        """Let the fork server reap it; its process id may be reused afterwards."""
        self._connection.settimeout(REPORT_TIMEOUT_S)
        with suppress(ConnectionError):
            self._connection.sendall(REAP)
        while not self.is_closed:
            try:
                self._read_lines(self._connection.recv(READ_BYTES))
            except TimeoutError:
                self._kill_server()
            except ConnectionError:
                self.is_closed = True

    def kill_silent_server(self) -> None:
        """Kill a fork server that does not report a dead trainer; call repeatedly after a kill."""
        self._killed_at = self._killed_at or time.monotonic()
        silent_s = time.monotonic() - self._killed_at
        if silent_s > REPORT_TIMEOUT_S and self.pid is not None and _is_dead(self.pid):
            self._kill_server()
            self._killed_at = None

    def _kill_server(self) -> None:
        log.warning(
            "the fork server did not report a dead trainer within %g s; killing the fork server",
            REPORT_TIMEOUT_S,
        )
        self._server.kill()

    def _read_lines(self, data: bytes) -> None:
        *lines, self._incomplete_line = (self._incomplete_line + data).split(b"\n")
        for line in lines:
            self._apply(json.loads(line))
        self.is_closed = not data

    def _apply(self, message: dict[str, Any]) -> None:
        match message:
            case {"pid": pid}:
                self.pid = pid
            case {"exit": code}:
                self.exit_code, self._was_reported = code, True
            case {"peak_bytes": peak}:
                self.peak_bytes = peak
            case {"error": error}:
                self.exit_code, self._was_reported = 1, True
                self.error = f"cannot fork a trainer process: {error}"

    def _infer_exit(self) -> None:
        """Find the exit code of a trainer whose fork server ended without reporting it."""
        code = self._server.exit_code()  # once it has exited, its children have another parent
        if self.pid is None:
            self.exit_code = 1 if code is None else code
            self.error = _no_trainer_message(code, self._server.last_line())
            return
        with suppress(ProcessLookupError):  # where Linux has not killed it yet
            os.killpg(self.pid, signal.SIGKILL)
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # another process adopted and reaped it
            self.exit_code = -signal.SIGKILL
        else:
            self.exit_code = os.waitstatus_to_exitcode(status) if pid else None


def _no_trainer_message(code: int | None, line: str) -> str:
    if code is None:
        return (
            "the fork server did not accept the request; "
            "it may have reached its limit of open files"
        )
    message = f": {line}" if line else ""
    return f"the fork server exited with code {code} before it forked the trainer{message}"


def _is_dead(pid: int) -> bool:
    """Whether it is a zombie or dead; False where /proc does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] in {"Z", "X"}

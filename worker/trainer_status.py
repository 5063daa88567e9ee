"""What the fork server reports of one trainer: its number, its end, the memory that it held."""

import json
import logging
import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from worker.fork_server import REAP, Launched

log = logging.getLogger(__name__)

READ_BYTES: Final = 4096
SILENT_S: Final = 30.0
"""How long the fork server may take to report a death; then it counts as stuck, and is killed."""


class TrainerStatus:
    """The worker's end of a trainer's status socket (`ampcore.fork_server`).

    When the fork server ends, Linux kills its trainers. They become children of this process
    where it is a subreaper, and it then asks Linux itself how they ended.
    """

    def __init__(self, connection: socket.socket, server: Launched) -> None:
        self.pid: int | None = None
        """None while the process does not exist."""
        self.exit_code: int | None = None
        """None until the end is known; negative for a signal."""
        self.peak_bytes = 0
        """The most memory that it held; known once it is reaped."""
        self.complaint = ""
        """Why there was no process."""
        self.is_over = False
        """The fork server says nothing more."""
        connection.setblocking(False)
        self._connection, self._server = connection, server
        self._waiting = b""
        self._was_told = False
        self._killed_at: float | None = None

    @property
    def died_with_server(self) -> bool:
        """Whether its end was that of the fork server."""
        return self.is_over and self.exit_code is not None and not self._was_told

    def look(self) -> None:
        """Read what was said since."""
        while not self.is_over:
            try:
                data = self._connection.recv(READ_BYTES)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            self._hear(data)
        if self.exit_code is None:
            self._find_out()

    def reap(self) -> None:
        """Have its entry removed from the process table; its number is then free again."""
        self._connection.settimeout(SILENT_S)
        with suppress(ConnectionError):
            self._connection.sendall(REAP)
        while not self.is_over:
            try:
                self._hear(self._connection.recv(READ_BYTES))
            except TimeoutError:
                self._kill_server()
            except ConnectionError:
                self.is_over = True

    def insist(self) -> None:
        """Call now and then when it was killed: whoever should report that may stand still."""
        self._killed_at = self._killed_at or time.monotonic()
        silent_s = time.monotonic() - self._killed_at
        if silent_s > SILENT_S and self.pid is not None and _is_dead(self.pid):
            self._kill_server()
            self._killed_at = None

    def _kill_server(self) -> None:
        log.warning("the fork server says nothing of a dead trainer for %g s: killed", SILENT_S)
        self._server.kill()

    def _hear(self, data: bytes) -> None:
        *lines, self._waiting = (self._waiting + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        self.is_over = not data

    def _take(self, said: dict[str, Any]) -> None:
        match said:
            case {"pid": pid}:
                self.pid = pid
            case {"exit": code}:
                self.exit_code, self._was_told = code, True
            case {"peak_bytes": peak}:
                self.peak_bytes = peak
            case {"error": error}:
                self.exit_code, self._was_told = 1, True
                self.complaint = f"no trainer could be forked: {error}"

    def _find_out(self) -> None:
        """The fork server has ended, or is about to, without a word about this trainer."""
        code = self._server.exit_code()  # from then on its children are somebody else's
        if self.pid is None:
            self.exit_code = 1 if code is None else code
            self.complaint = _complaint(code, self._server.last_line())
            return
        with suppress(ProcessLookupError):  # where the system has not done it
            os.killpg(self.pid, signal.SIGKILL)
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # it went to another process, and there to its end
            self.exit_code = -signal.SIGKILL
        else:
            self.exit_code = os.waitstatus_to_exitcode(status) if pid else None


def _complaint(code: int | None, line: str) -> str:
    if code is None:
        return "the fork server could not take the request: it may have too many open files"
    said = f": {line}" if line else ""
    return f"the fork server has ended with exit code {code} before it forked the trainer{said}"


def _is_dead(pid: int) -> bool:
    """Whether only its entry in the process table is left; False where that cannot be seen."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] in {"Z", "X"}

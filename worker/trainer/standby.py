"""Keeps one trainer process ready: forked and warmed up before its job arrives."""

import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

from infra.isolation.process_group_tracker import ProcessGroupTracker
from worker.trainer.fork_server import ForkServer
from worker.trainer.isolation import Isolation, TrainerFolder
from worker.trainer.trainer_process import PROGRAM, TrainerProcess

log = logging.getLogger(__name__)

READY_TIMEOUT_S: Final = 300.0
"""How long a job may wait for its trainer process, including the load of the fork server."""


class Standby:
    """Holds at most one standby process; thread-safe.

    Args:
        program: The command of the fork server.
        isolation: How trainers are isolated; None: not at all.
    """

    def __init__(
        self, program: Sequence[str] = PROGRAM, isolation: Isolation | None = None
    ) -> None:
        self._tracker, self._isolation = ProcessGroupTracker(), isolation
        self._server = ForkServer(program, self._tracker)
        self._lock = threading.Lock()
        self._process: TrainerProcess | None = None
        self._hardware: dict[str, Any] | None = None
        self._closed = False

    @property
    def peak_bytes(self) -> int:
        """The largest peak memory of a trainer that has ended."""
        return self._server.peak_bytes

    def prepare(self) -> None:
        """Request a standby process unless there is one."""
        with self._lock:
            self._discard_if_dead()
            if self._process is None and not self._closed:
                try:
                    self._process = self._request_process(is_standby=True)
                except OSError as error:  # the next job then requests its own process
                    log.warning("cannot start a standby trainer process: %s", error)

    def take(self) -> TrainerProcess:
        """The standby process, or a new one when no standby could start at once.

        A standby that is still warming up is not used: a new process reaches its first step sooner.
        Raises OSError when the fork server cannot be started.
        """
        with self._lock:
            self._discard_if_dead()
            process = self._process
            if process is None or (process.pid is not None and process.ready is None):
                return self._request_process(is_standby=False)
            self._process = None
            return process

    def request_sandboxed(self, folder: TrainerFolder) -> TrainerProcess:
        """A new process for a job with custom code; never the standby, which has less isolation.

        Raises OSError when the fork server cannot be started.
        """
        with self._lock:
            return self._request_in(folder, is_standby=False)

    def request_rank(self, tcp_ports: tuple[int, ...] | None) -> TrainerProcess:
        """A new process for a rank; never the standby, which may not use TCP.

        Args:
            tcp_ports: The ports on which it may listen and to which it may connect; None: all.

        Raises:
            OSError: The fork server cannot be started.
        """
        with self._lock:
            folder = None
            if self._isolation is not None:
                folder = self._isolation.new_folder(tcp_ports=tcp_ports)
            return self._request_in(folder, is_standby=False)

    def hardware(self) -> dict[str, Any] | None:
        """The hardware that a standby process has reported; None until one has.

        Call this regularly: it also reads what the standby prints, so that its pipe stays empty.
        """
        with self._lock:
            self._discard_if_dead()
            return self._hardware

    def close(self) -> None:
        """End the standby process and the fork server; no other one is started."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.discard()
                self._process = None
        self._server.close()
        self._tracker.close()

    def _discard_if_dead(self) -> None:
        """Read the standby's output, and discard it when it has ended or sends no valid frames."""
        if (process := self._process) is None:
            return
        process.read_frames(timeout_s=0)
        is_healthy = process.is_alive and process.invalid_telemetry is None
        if process.ready is not None:
            self._hardware = process.ready["hardware"]
        if not is_healthy:
            log.warning("the standby trainer process exited: %s", process.log_capture.last_line())
            process.discard()
            self._process = None

    def _request_process(self, *, is_standby: bool) -> TrainerProcess:
        folder = self._isolation.new_folder() if self._isolation is not None else None
        return self._request_in(folder, is_standby=is_standby)

    def _request_in(self, folder: TrainerFolder | None, *, is_standby: bool) -> TrainerProcess:
        try:
            return TrainerProcess(self._server, self._tracker, folder, is_standby=is_standby)
        except OSError:
            if folder is not None:
                folder.close()
            raise

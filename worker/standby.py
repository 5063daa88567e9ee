"""A trainer process kept warm: forked, and rehearsed, before its job is there."""

import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

from worker.fork_server import ForkServer
from worker.guard import Guard
from worker.isolation import Isolation
from worker.supervisor import PROGRAM, TrainerProcess

log = logging.getLogger(__name__)

READY_S: Final = 300.0
"""How long a job may wait for its trainer process, and so for the fork server to load."""


class Standby:
    """Holds at most one waiting process; safe to use from every slot's thread.

    Args:
        program: The command of the process that trainers are forked from.
        isolation: How trainers are confined; None: not at all.
    """

    def __init__(
        self, program: Sequence[str] = PROGRAM, isolation: Isolation | None = None
    ) -> None:
        self._guard, self._isolation = Guard(), isolation
        self._server = ForkServer(program, self._guard)
        self._lock = threading.Lock()
        self._process: TrainerProcess | None = None
        self._hardware: dict[str, Any] | None = None
        self._closed = False

    @property
    def peak_bytes(self) -> int:
        """The most memory that a trainer has held, of those that are gone."""
        return self._server.peak_bytes

    def prepare(self) -> None:
        """Have a process wait, unless one does."""
        with self._lock:
            self._drop_if_dead()
            if self._process is None and not self._closed:
                try:
                    self._process = self._asked(is_standby=True)
                except OSError as error:  # the next job then asks for a process of its own
                    log.warning("no trainer can stand by: %s", error)

    def take(self) -> TrainerProcess:
        """The waiting process, or a new one when there is none that could begin at once.

        One that rehearses goes on with that: a new one is at its first step earlier. Raises
        OSError when there is nothing to fork it from.
        """
        with self._lock:
            self._drop_if_dead()
            process = self._process
            if process is None or (process.pid is not None and process.ready is None):
                return self._asked(is_standby=False)
            self._process = None
            return process

    def hardware(self) -> dict[str, Any] | None:
        """What a waiting process has found on this machine; None until one has looked.

        Ask now and then: a process that prints much while it waits must be heard.
        """
        with self._lock:
            self._drop_if_dead()
            return self._hardware

    def close(self) -> None:
        """End the waiting process, and what processes are forked from; there will be no other."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.discard()
                self._process = None
        self._server.close()
        self._guard.close()

    def _drop_if_dead(self) -> None:
        """Hear what the waiting process says, and let go of it when it says nothing more."""
        if (process := self._process) is None:
            return
        try:
            process.hear(timeout_s=0)
            is_sound = process.is_alive
        except ValueError:  # no frames
            is_sound = False
        if process.ready is not None:
            self._hardware = process.ready["hardware"]
        if not is_sound:
            log.warning("the trainer that stood by has ended: %s", process.printed.last_line())
            process.discard()
            self._process = None

    def _asked(self, *, is_standby: bool) -> TrainerProcess:
        folder = self._isolation.new_folder() if self._isolation is not None else None
        try:
            return TrainerProcess(self._server, self._guard, folder, is_standby=is_standby)
        except OSError:
            if folder is not None:
                folder.close()
            raise

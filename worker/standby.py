"""A trainer process kept warm: TensorFlow is imported before the job is there."""

import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

from worker.guard import Guard
from worker.supervisor import PROGRAM, TrainerProcess

log = logging.getLogger(__name__)

READY_S: Final = 300.0
"""How long a trainer process may take to load its libraries once a job waits for it."""


class Standby:
    """Holds at most one waiting process; safe to use from every slot's thread."""

    def __init__(self, program: Sequence[str] = PROGRAM) -> None:
        self._program = program
        self._guard = Guard()
        self._lock = threading.Lock()
        self._process: TrainerProcess | None = None
        self._hardware: dict[str, Any] | None = None
        self._closed = False

    def prepare(self) -> None:
        """Start a process to wait, unless one does; call from a thread that stays."""
        with self._lock:
            if self._process is None and not self._closed:
                try:
                    self._process = self._start()
                except OSError as error:  # the next job then starts a process of its own
                    log.warning("no trainer can stand by: %s", error)

    def take(self) -> TrainerProcess:
        """The waiting process, or a new one when there is none or it has died."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None and not process.is_alive:
                process.end(grace_s=0)
                process = None
            return process or self._start()

    def hardware(self) -> dict[str, Any] | None:
        """What a waiting process has found on this machine; None until one has looked.

        Ask now and then: a process that prints much while it waits must be heard.
        """
        with self._lock:
            if self._process is not None:
                self._process.hear(timeout_s=0)
                if self._process.ready is not None:
                    self._hardware = self._process.ready["hardware"]
            return self._hardware

    def close(self) -> None:
        """End the waiting process; there will be no other."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.end(grace_s=0)
                self._process = None
        self._guard.close()

    def _start(self) -> TrainerProcess:
        return TrainerProcess(self._guard, self._program)

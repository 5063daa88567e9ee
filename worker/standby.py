"""A trainer process kept warm: TensorFlow is imported before the job is there."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from ampcore.series.frames import FrameType
from worker.supervisor import PROGRAM, TrainerProcess

log = logging.getLogger(__name__)


class Standby:
    """Holds at most one waiting process; safe to use from every slot's thread."""

    def __init__(self, log_dir: Path, program: Sequence[str] = PROGRAM) -> None:
        self._log_dir = log_dir
        self._program = program
        self._lock = threading.Lock()
        self._process: TrainerProcess | None = None
        self._hardware: dict[str, Any] | None = None

    def prepare(self) -> None:
        """Start a process to wait, unless one does; call from a thread that stays."""
        with self._lock:
            if self._process is None:
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
                process.log_file.unlink(missing_ok=True)
                process = None
            return process or self._start()

    def hardware(self) -> dict[str, Any] | None:
        """What a waiting process has found on this machine; None until one has looked."""
        with self._lock:
            if self._hardware is None and self._process is not None:
                for frame in self._process.next_batch(timeout_s=0):
                    if frame.type is FrameType.READY:
                        self._hardware = frame.header["hardware"]
            return self._hardware

    def close(self) -> None:
        """End the waiting process."""
        with self._lock:
            if self._process is not None:
                self._process.end(grace_s=0)
                self._process.log_file.unlink(missing_ok=True)
                self._process = None

    def _start(self) -> TrainerProcess:
        return TrainerProcess(self._log_dir / f"trainer-{uuid4().hex}.log", self._program)

"""Control: a folder of files with which a test sets how far and how fast its trainers train.

The tests import it as a module, the trainer programs from their own folder. It imports only the
standard library.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

POLL_S = 0.02


@dataclass
class Control:
    """The folder, written by the test and read by the trainers.

    A trainer reports its steps in blocks of `block_steps`, however fast the machine is. With a
    `pace` below 1 it waits after each block, to simulate a slower machine.
    """

    folder: Path
    block_steps: int
    pace: float = 1.0
    _stopped: Callable[[], bool] = field(default=lambda: False, init=False, repr=False)
    _since: float = field(default=0.0, init=False, repr=False)
    _attempt: tuple[str, int, int] = field(default=("", 0, 0), init=False, repr=False)
    """The name and the attempt of this process, and its rank."""

    # ---- The test's side

    def argument(self) -> str:
        """This object as one argument of a trainer's command line."""
        values = {name: value for name, value in asdict(self).items() if name[0] != "_"}
        return json.dumps(values | {"folder": str(self.folder)})

    def hold(self, step: int) -> None:
        """Make every trainer wait after this step until it is released or stopped."""
        _write(self._hold_file, str(step))

    def hold_in(self, phase: str, attempt: int, rank: int) -> None:
        """Make a rank wait in this phase of an attempt until it is released or stopped."""
        _write(self._phase_file(attempt, rank), phase)

    def release(self) -> None:
        """Let the trainers train to the end."""
        self._hold_file.unlink(missing_ok=True)
        for file in self.folder.glob("phase-*"):
            file.unlink()

    def set_memory_limit(self, size_bytes: int | None) -> None:
        """Limit the memory that later attempts may allocate in addition; None: no limit."""
        if size_bytes is None:
            self._memory_file.unlink(missing_ok=True)
        else:
            self._memory_file.write_text(str(size_bytes))

    def use_rank_proxy(self, port: int | None) -> None:
        """Make the other ranks of later attempts reach rank 0 through this port; None: directly."""
        if port is None:
            self._proxy_file.unlink(missing_ok=True)
        else:
            self._proxy_file.write_text(str(port))

    def end_exchange(self, attempt: int | None) -> None:
        """End the time for which rank 0 waits for the others in this attempt; None: in none."""
        if attempt is None:
            self._exchange_file.unlink(missing_ok=True)
        else:
            _write(self._exchange_file, str(attempt))

    def pid(self, job_id: str, attempt: int) -> int | None:
        """The process id that trains this attempt; None before it starts."""
        try:
            return int(self._pid_file(job_id, attempt).read_text())
        except FileNotFoundError:
            return None

    def has_entered(self, phase: str, job_id: str, attempt: int) -> bool:
        """Whether the process with this name has entered the phase in this attempt."""
        return self._entered_file(phase, job_id, attempt).exists()

    # ---- The trainer's side

    @classmethod
    def from_argument(cls, word: str) -> "Control":
        """Parse what `argument` returned."""
        values = json.loads(word)
        return cls(**values | {"folder": Path(values["folder"])})

    def begin(
        self, job_id: str, attempt: int, stopped: Callable[[], bool], *, rank: int = 0
    ) -> None:
        """Record that this process trains the attempt; waits end once `stopped()` is true."""
        self._stopped, self._since = stopped, time.monotonic()
        self._attempt = (job_id, attempt, rank)
        self._limit_memory()
        _write(self._pid_file(job_id, attempt), str(os.getpid()))

    def enter(self, phase: str) -> None:
        """Record that this process enters a phase, and wait while the test holds it there."""
        job_id, attempt, rank = self._attempt
        self._entered_file(phase, job_id, attempt).touch()
        while self._holds_in(phase, attempt, rank) and not self._stopped():
            time.sleep(POLL_S)

    def rank_proxy(self) -> int | None:
        """The port of the proxy to rank 0; None without one."""
        return int(self._proxy_file.read_text()) if self._proxy_file.exists() else None

    def exchange_has_ended(self, attempt: int) -> bool:
        """Whether the time for which rank 0 waits for the others is over in this attempt."""
        try:
            return int(self._exchange_file.read_text()) == attempt
        except FileNotFoundError:
            return False

    def after(self, steps: int, took_s: float | None = None) -> None:
        """Wait after this many steps: for the pace, and while the test holds the trainers.

        `took_s` is the simulated duration of the block, which is waited for too.
        """
        if took_s is None:
            took_s = time.monotonic() - self._since
        else:
            time.sleep(took_s / max(self.pace, 1))
        until = time.monotonic() + took_s * (1 / self.pace - 1)
        # Not threading.Event: a signal handler that sets it would deadlock with the waiting code.
        while (self._holds(steps) or time.monotonic() < until) and not self._stopped():
            time.sleep(POLL_S)
        self._since = time.monotonic()

    def _holds(self, steps: int) -> bool:
        try:
            return steps >= int(self._hold_file.read_text())
        except FileNotFoundError:
            return False

    def _holds_in(self, phase: str, attempt: int, rank: int) -> bool:
        try:
            return self._phase_file(attempt, rank).read_text() == phase
        except FileNotFoundError:
            return False

    def _limit_memory(self) -> None:
        if not self._memory_file.exists() or not sys.platform.startswith("linux"):
            return
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        size_bytes = pages * resource.getpagesize() + int(self._memory_file.read_text())
        resource.setrlimit(resource.RLIMIT_AS, (size_bytes, resource.RLIM_INFINITY))

    @property
    def _hold_file(self) -> Path:
        return self.folder / "hold"

    @property
    def _memory_file(self) -> Path:
        return self.folder / "memory"

    @property
    def _proxy_file(self) -> Path:
        return self.folder / "rank-proxy"

    @property
    def _exchange_file(self) -> Path:
        return self.folder / "exchange"

    def _pid_file(self, job_id: str, attempt: int) -> Path:
        return self.folder / f"{job_id}-{attempt}"

    def _phase_file(self, attempt: int, rank: int) -> Path:
        return self.folder / f"phase-{attempt}-{rank}"

    def _entered_file(self, phase: str, job_id: str, attempt: int) -> Path:
        return self.folder / f"{job_id}-{attempt}-{phase}"


def _write(file: Path, text: str) -> None:
    """Write a file that others read at the same time."""
    unfinished = file.with_suffix(".new")
    unfinished.write_text(text)
    unfinished.rename(file)

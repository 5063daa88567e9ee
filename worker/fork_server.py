"""The process that trainers are forked from: started, started again when it ends, and asked.

What is said to it, and what it answers, is described in `ampcore.fork_server`, which this process
only executes: a worker never imports TensorFlow.
"""

import logging
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

from worker.guard import Guard

log = logging.getLogger(__name__)

JOB: Final = b"J"
STANDBY: Final = b"S"
REAP: Final = b"R"

ENDS_S: Final = 10.0
"""How long it may take from the end of its connections to its own."""
TAIL_BYTES: Final = 4096
TRIES: Final = 3
"""How many servers may end while they are being asked for one trainer."""
LONGEST_PAUSE_S: Final = 60.0
"""Between two servers that both ended before they could fork; a job does not wait for it."""

# Everything else, and so every secret of this worker, stays out of the trainer's environment.
PASSED_ON: Final = ("PATH", "HOME", "USER", "TZ", "TMPDIR", "LANG", "VIRTUAL_ENV", "PYTHONPATH")
PASSED_ON_PREFIXES: Final = (
    "CUDA_", "GOMP_", "KMP_", "LC_", "LD_", "NCCL_", "NVIDIA_", "OMP_", "ONEDNN_",
    "TF_CPP_", "TF_CUDNN_", "TF_DETERMINISTIC_", "TF_ENABLE_", "TF_FORCE_GPU_", "TF_GPU_",
    "TF_NUM_", "TF_XLA_", "XLA_",
)  # fmt: skip


def environment(inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The part of the worker's environment that the fork server and its trainers may see."""
    return {
        name: value
        for name, value in inherited.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }


class Launched:
    """One such process, in a session and a process group of its own."""

    def __init__(self, program: Sequence[str], guard: Guard) -> None:
        self._requests, theirs = socket.socketpair()
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed at its end
        try:
            self._process = subprocess.Popen(
                [*program, "--requests-fd", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._printed,
                stderr=self._printed,
                pass_fds=[theirs.fileno()],
                env=environment(),
                start_new_session=True,
            )
        except OSError:
            self._requests.close()
            self._printed.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self._guard = guard
        self._sending = threading.Lock()
        self._gone = threading.Event()
        self._exit_code, self._last_line = 0, ""
        guard.watch(self.pid)

    def ask(self, kind: bytes, descriptors: Sequence[int]) -> None:
        """Ask for a trainer with these descriptors. Raises ConnectionError when it has ended."""
        with self._sending:
            if self._gone.is_set():
                raise ConnectionResetError
            socket.send_fds(self._requests, [kind], list(descriptors))

    def outlive(self) -> bool:
        """See it to its end, from one thread; True when it had loaded everything before."""
        loaded = False
        with suppress(ConnectionError):
            while self._requests.recv(1):
                loaded = True
        self._exit_code = self._process.wait()
        self._guard.release(self.pid)
        self._last_line = self._read_last_line()
        with self._sending:
            self._gone.set()
            self._requests.close()
        self._printed.close()
        return loaded

    def exit_code(self) -> int | None:
        """How it ended, negative for a signal; None when it lives on. Ask when it seems to end."""
        return self._exit_code if self._gone.wait(ENDS_S) else None

    def last_line(self) -> str:
        """The last line that it printed, which is about its own start; known once it has ended."""
        return self._last_line

    def kill(self) -> None:
        """End it; its trainers end with it."""
        self._process.kill()

    def _read_last_line(self) -> str:
        size = os.fstat(self._printed.fileno()).st_size
        tail = os.pread(self._printed.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))
        lines = tail.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


class ForkServer:
    """Keeps one such process, and asks it for trainers; safe to use from every thread.

    A thread of its own starts the process and sees it end: the process dies with the thread that
    started it. When one ends by itself the next one is started at once, so that it is loaded when
    a job comes; where it cannot even load, after a pause, or when a job needs it.

    Args:
        program: The command of the process; `--requests-fd N` is added.
        guard: Is told of the process, and should be told of each trainer.
    """

    def __init__(self, program: Sequence[str], guard: Guard) -> None:
        self._program, self._guard = program, guard
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._launched: Launched | None = None
        self._failure: OSError | None = None
        self._is_wanted = self._is_closed = False
        self.peak_bytes = 0
        """The most memory that one of its trainers held."""

    def start(self) -> None:
        """Start the process, unless that was done; does not wait for it to load."""
        with self._changed:
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._keep, name="fork-server", daemon=True)
                self._thread.start()

    def ask(self, kind: bytes, descriptors: Sequence[int]) -> Launched:
        """Ask for a trainer with these descriptors; returns the process that was asked.

        It is answered once that process has loaded its modules. Raises OSError when the process
        cannot be started.
        """
        self.start()
        for _ in range(TRIES):
            launched = self._current()
            try:
                launched.ask(kind, descriptors)
            except ConnectionError:  # it has ended, and its thread will see that, too
                self._forget(launched)
            else:
                return launched
        raise OSError(f"the fork server has ended {TRIES} times as it was asked for a trainer")

    def saw_peak(self, size_bytes: int) -> None:
        """Note how much memory a trainer has held that is gone."""
        with self._changed:
            self.peak_bytes = max(self.peak_bytes, size_bytes)

    def close(self) -> None:
        """End the process and with it whatever it has forked; there will be no other."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            if self._launched is not None:
                self._launched.kill()
        if self._thread is not None:
            self._thread.join()

    def _current(self) -> Launched:
        """The process that runs, once there is one. Raises OSError when it cannot be started."""
        with self._changed:
            if self._launched is None:
                self._is_wanted, self._failure = True, None
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._launched or self._failure or self._is_closed)
            if self._launched is not None:
                return self._launched
            raise self._failure or OSError("the worker ends")

    def _forget(self, launched: Launched) -> None:
        with self._changed:
            if self._launched is launched:
                self._launched = None

    def _keep(self) -> None:
        pause_s = 0.0
        while self._may_launch(pause_s):
            launched = self._launch()
            if launched is not None and self._outlived(launched):
                pause_s = 0.0
            else:
                pause_s = min(2 * pause_s or 1.0, LONGEST_PAUSE_S)

    def _may_launch(self, pause_s: float) -> bool:
        """Wait for a pause, or until a trainer is wanted; False when there is to be no other."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_wanted or self._is_closed, pause_s)
            self._is_wanted = False
            return not self._is_closed

    def _launch(self) -> Launched | None:
        try:
            launched = Launched(self._program, self._guard)
        except OSError as error:
            log.warning("the fork server cannot be started: %s", error)
            with self._changed:
                self._failure = error
                self._changed.notify_all()
            return None
        with self._changed:
            self._launched = launched
            self._changed.notify_all()
            if self._is_closed:
                launched.kill()
        return launched

    def _outlived(self, launched: Launched) -> bool:
        had_loaded = launched.outlive()
        self._forget(launched)
        with self._changed:
            if not self._is_closed:
                said = f": {line}" if (line := launched.last_line()) else ""
                log.warning(
                    "the fork server has ended with exit code %d%s", launched.exit_code(), said
                )
        return had_loaded

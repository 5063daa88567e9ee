"""The worker's side of the fork server: start it, restart it when it ends, request trainers.

`worker.trainer.child.fork_server` describes the protocol. The worker executes that module but does
not import it, since a worker never imports TensorFlow.
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

from infra.isolation.process_group_tracker import ProcessGroupTracker

log = logging.getLogger(__name__)

JOB: Final = b"J"
STANDBY: Final = b"S"
REAP: Final = b"R"

EXIT_TIMEOUT_S: Final = 10.0
"""How long the process may take to exit after it closed its connections."""
TAIL_BYTES: Final = 4096
MAX_TRIES: Final = 3
"""How many fork servers in a row may exit during one request."""
MAX_RESTART_DELAY_S: Final = 60.0
"""The longest wait between two starts that both failed to load; a request skips the wait."""

# An allow-list: the worker's secrets never reach the trainer's environment.
PASSED_VARIABLES: Final = (
    "PATH",
    "HOME",
    "USER",
    "TZ",
    "TMPDIR",
    "LANG",
    "VIRTUAL_ENV",
    "PYTHONPATH",
)
PASSED_PREFIXES: Final = (
    "CUDA_", "GOMP_", "KMP_", "LC_", "LD_", "NCCL_", "NVIDIA_", "OMP_", "ONEDNN_",
    "TF_CPP_", "TF_CUDNN_", "TF_DETERMINISTIC_", "TF_ENABLE_", "TF_FORCE_GPU_", "TF_GPU_",
    "TF_NUM_", "TF_XLA_", "XLA_",
)  # fmt: skip


def trainer_environment(inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The part of the worker's environment that the fork server and its trainers inherit."""
    return {
        name: value
        for name, value in inherited.items()
        if name in PASSED_VARIABLES or name.startswith(PASSED_PREFIXES)
    }


class ForkServerProcess:
    """One fork server process, in a new session and process group."""

    def __init__(self, program: Sequence[str], tracker: ProcessGroupTracker) -> None:
        self._requests, theirs = socket.socketpair()
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed at its end
        try:
            self._process = subprocess.Popen(
                [*program, "--requests-fd", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[theirs.fileno()],
                env=trainer_environment(),
                start_new_session=True,
            )
        except OSError:
            self._requests.close()
            self._output.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self._tracker = tracker
        self._send_lock = threading.Lock()
        self._exited = threading.Event()
        self._exit_code, self._last_line = 0, ""
        tracker.register(self.pid)

    def request_trainer(self, kind: bytes, descriptors: Sequence[int]) -> None:
        """Request a trainer with these descriptors. Raises ConnectionError when it has exited."""
        with self._send_lock:
            if self._exited.is_set():
                raise ConnectionResetError
            socket.send_fds(self._requests, [kind], list(descriptors))

    def wait(self) -> bool:
        """Wait for its exit, from one thread; True when it had loaded its modules before."""
        loaded = False
        with suppress(ConnectionError):
            while self._requests.recv(1):
                loaded = True
        self._exit_code = self._process.wait()
        self._tracker.unregister(self.pid)
        self._last_line = self._read_last_line()
        with self._send_lock:
            self._exited.set()
            self._requests.close()
        self._output.close()
        return loaded

    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; waits, and returns None when it still runs."""
        return self._exit_code if self._exited.wait(EXIT_TIMEOUT_S) else None

    def last_line(self) -> str:
        """The last line that it printed itself; empty until it has exited."""
        return self._last_line

    def kill(self) -> None:
        """Kill it; its trainers end with it."""
        self._process.kill()

    def _read_last_line(self) -> str:
        size = os.fstat(self._output.fileno()).st_size
        tail = os.pread(self._output.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))
        lines = tail.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


class ForkServer:
    """Keeps one fork server running and requests trainers from it; thread-safe.

    A separate thread starts the process and waits for it: the process dies with the thread that
    started it. When it exits, the next one starts at once, so that it is loaded when a job
    arrives; after a failed start, with a growing delay or when a job needs it.

    Args:
        program: The command of the process; `--requests-fd N` is appended.
        tracker: Kills the process's group when the worker dies.
    """

    def __init__(self, program: Sequence[str], tracker: ProcessGroupTracker) -> None:
        self._program, self._tracker = program, tracker
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._process: ForkServerProcess | None = None
        self._failure: OSError | None = None
        self._is_wanted = self._is_closed = False
        self.peak_bytes = 0
        """The largest peak memory of a trainer that has ended."""

    def start(self) -> None:
        """Start the process if it was not started; does not wait until it has loaded."""
        with self._changed:
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="fork-server", daemon=True)
                self._thread.start()

    def request_trainer(self, kind: bytes, descriptors: Sequence[int]) -> ForkServerProcess:
        """Request a trainer with these descriptors; returns the process that got the request.

        The trainer is forked once that process has loaded its modules. Raises OSError when the
        process cannot be started.
        """
        self.start()
        for _ in range(MAX_TRIES):
            process = self._running_process()
            try:
                process.request_trainer(kind, descriptors)
            except ConnectionError:  # it has exited; its thread will notice that too
                self._clear(process)
            else:
                return process
        raise OSError(f"the fork server exited {MAX_TRIES} times while starting a trainer process")

    def record_peak(self, size_bytes: int) -> None:
        """Record the peak memory of a trainer that has ended."""
        with self._changed:
            self.peak_bytes = max(self.peak_bytes, size_bytes)

    def close(self) -> None:
        """Kill the process and with it its trainers, and start no other one."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            if self._process is not None:
                self._process.kill()
        if self._thread is not None:
            self._thread.join()

    def _running_process(self) -> ForkServerProcess:
        """The running process; waits for its start. Raises OSError when the start fails."""
        with self._changed:
            if self._process is None:
                self._is_wanted, self._failure = True, None
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._process or self._failure or self._is_closed)
            if self._process is not None:
                return self._process
            raise self._failure or OSError("the worker is shutting down")

    def _clear(self, process: ForkServerProcess) -> None:
        with self._changed:
            if self._process is process:
                self._process = None

    def _run(self) -> None:
        delay_s = 0.0
        while self._wait_before_start(delay_s):
            process = self._start_process()
            if process is not None and self._wait_for_exit(process):
                delay_s = 0.0
            else:
                delay_s = min(2 * delay_s or 1.0, MAX_RESTART_DELAY_S)

    def _wait_before_start(self, delay_s: float) -> bool:
        """Wait for the delay or for a request; False once the fork server is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_wanted or self._is_closed, delay_s)
            self._is_wanted = False
            return not self._is_closed

    def _start_process(self) -> ForkServerProcess | None:
        try:
            process = ForkServerProcess(self._program, self._tracker)
        except OSError as error:
            log.warning("cannot start the fork server: %s", error)
            with self._changed:
                self._failure = error
                self._changed.notify_all()
            return None
        with self._changed:
            self._process = process
            self._changed.notify_all()
            if self._is_closed:
                process.kill()
        return process

    def _wait_for_exit(self, process: ForkServerProcess) -> bool:
        had_loaded = process.wait()
        self._clear(process)
        with self._changed:
            if not self._is_closed:
                said = f": {line}" if (line := process.last_line()) else ""
                log.warning("the fork server exited with code %d%s", process.exit_code(), said)
        return had_loaded

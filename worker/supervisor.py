"""One trainer process: exec'd in its own group, fed one job, read, and seen to its end."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ampcore.series.frames import Frame, FrameReader

PROGRAM: Final = (sys.executable, "-m", "ampcore.child")
READ_BYTES: Final = 1 << 16
TAIL_BYTES: Final = 4096
PIPE_BYTES: Final = 1 << 20
"""Room for the largest spec, so that handing it over never waits for the child."""
POLL_S: Final = 0.02

# Everything else, and so every secret of this worker, stays out of the trainer's environment.
PASSED_ON: Final = ("PATH", "HOME", "USER", "TZ", "TMPDIR", "LANG", "VIRTUAL_ENV", "PYTHONPATH")
PASSED_ON_PREFIXES: Final = (
    "CUDA_", "GOMP_", "KMP_", "LC_", "LD_", "NCCL_", "NVIDIA_", "OMP_", "ONEDNN_",
    "TF_CPP_", "TF_CUDNN_", "TF_DETERMINISTIC_", "TF_ENABLE_", "TF_FORCE_GPU_", "TF_GPU_",
    "TF_NUM_", "TF_XLA_", "XLA_",
)  # fmt: skip


def environment(inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The part of the worker's environment that a trainer process may see."""
    return {
        name: value
        for name, value in inherited.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }


class TrainerProcess:
    """A child that imports TensorFlow at once and then waits for its one job.

    The child dies with the thread that starts it, so start it from a thread that lives as
    long as the worker.
    """

    def __init__(self, log_file: Path, program: Sequence[str] = PROGRAM) -> None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        reading, writing = os.pipe()
        try:
            with log_file.open("ab") as log:
                self._process = subprocess.Popen(
                    [*program, "--frames-fd", str(writing)],
                    stdin=subprocess.PIPE,
                    pipesize=PIPE_BYTES,
                    stdout=log,
                    stderr=log,
                    pass_fds=[writing],
                    env=environment(),
                    start_new_session=True,
                )
        finally:
            os.close(writing)
        self.log_file = log_file
        self.pid = self._process.pid
        self._reading = reading
        self._reader = FrameReader()
        self._at_end = False

    @property
    def is_alive(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    def assign(self, job: Mapping[str, Any], log_file: Path) -> None:
        """Hand over the job, and move the log to where it belongs from now on.

        A process that is dead already is found out by the end of its frames.
        """
        log_file.parent.mkdir(parents=True, exist_ok=True)
        self.log_file = self.log_file.rename(log_file)
        assert self._process.stdin is not None  # noqa: S101 - opened above
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(job, ensure_ascii=False).encode() + b"\n")
            self._process.stdin.flush()

    def batches(self, timeout_s: float) -> Iterator[list[Frame]]:
        """Every frame until the process ends, those together that have come together.

        An empty batch is yielded each time that `timeout_s` pass without a whole frame.
        """
        while not self._at_end:
            yield self.next_batch(timeout_s)

    def next_batch(self, timeout_s: float) -> list[Frame]:
        """The frames that have come; none when none comes in time or the process has ended."""
        deadline = time.monotonic() + timeout_s
        batch: list[Frame] = []
        while not batch and self._readable(max(deadline - time.monotonic(), 0.0)):
            data = os.read(self._reading, READ_BYTES)
            if not data:
                self._at_end = True
                break
            batch.extend(self._reader.feed(data))
        return batch

    def terminate(self) -> None:
        """Ask the whole group to stop."""
        self._signal(signal.SIGTERM)

    def end(self, grace_s: float) -> int:
        """Wait `grace_s` for the process, then kill its group; return when the group is gone.

        The exit code is negative for a signal, as in subprocess.
        """
        if self._reading < 0:  # ended before: its number may belong to somebody else by now
            return self._process.wait()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_s)
        while self._signal(signal.SIGKILL):  # also what a dead leader has left in its group
            self._process.poll()
            time.sleep(POLL_S)
        self._close()
        return self._process.wait()

    def log_tail(self) -> str:
        """The last line that the process printed, for a message."""
        with self.log_file.open("rb") as log:
            log.seek(max(self.log_file.stat().st_size - TAIL_BYTES, 0))
            lines = log.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _readable(self, timeout_s: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._reading, selectors.EVENT_READ)
            return bool(selector.select(timeout_s))

    def _signal(self, number: signal.Signals) -> bool:
        """Signal the group; False when nobody is left in it."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def _close(self) -> None:
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1
        assert self._process.stdin is not None  # noqa: S101 - opened above
        with suppress(BrokenPipeError):
            self._process.stdin.close()

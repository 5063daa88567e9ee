"""One trainer process: exec'd in its own group, fed one job, read, and seen to its end."""

import fcntl
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ampcore.series.frames import Frame, FrameReader, FrameType
from worker.guard import Guard
from worker.printed import STDERR, STDOUT, Printed

PROGRAM: Final = (sys.executable, "-u", "-m", "ampcore.child")
"""Unbuffered: what it has printed is in the log also when it is killed."""
FRAMES: Final = "frames"
READ_BYTES: Final = 1 << 16
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

    def __init__(self, guard: Guard, program: Sequence[str] = PROGRAM) -> None:
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*program, "--frames-fd", str(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[writing],
                env=environment(),
                start_new_session=True,
            )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._make_room()
        self.pid = self._process.pid
        self.ready: dict[str, Any] | None = None
        """What it said of its machine and its libraries, once it stands by."""
        self.printed = Printed()
        self._guard = guard
        guard.watch(self.pid)
        self._reader = FrameReader()
        self._frames_fd = reading
        self._pipes = selectors.DefaultSelector()
        for stream, name in self._streams():
            self._pipes.register(stream, selectors.EVENT_READ, name)

    @property
    def is_alive(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int:
        """How it ended; negative for a signal, as in subprocess."""
        return self._process.wait()

    @property
    def tells_more(self) -> bool:
        """False when no frame will come any more."""
        return any(key.data == FRAMES for key in self._pipes.get_map().values())

    def assign(self, job: Mapping[str, Any]) -> None:
        """Hand over the job.

        A process that is dead already is found out by the end of its frames.
        """
        assert self._process.stdin is not None  # noqa: S101 - opened above
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(job, ensure_ascii=False).encode() + b"\n")
            self._process.stdin.flush()

    def hear(self, timeout_s: float) -> list[Frame]:
        """Read what has come in time: the frames, and into `printed` what was printed.

        Raises ValueError on bytes that are no frames.
        """
        frames: list[Frame] = []
        was_alive = self.is_alive  # asked first: its last words come before its end
        heard = self._pipes.select(timeout_s)
        for key, _ in heard:
            data = os.read(key.fd, READ_BYTES)
            if not data:
                self._pipes.unregister(key.fileobj)
            if key.data == FRAMES:
                frames += self._cut(data)
            else:
                self.printed.feed(key.data, data)
        if not heard and not was_alive:
            # Somebody else holds its pipes open, and may do so for ever.
            self._stop_listening()
        return frames

    def terminate(self) -> None:
        """Ask the whole group to stop."""
        self._signal(signal.SIGTERM)

    def end(self, grace_s: float) -> list[Frame]:
        """Wait `grace_s` for the process, then kill its group; return when the group is gone.

        Returns the frames that nobody has heard yet.
        """
        if self._frames_fd < 0:  # ended before: its number may belong to somebody else by now
            return []
        late: list[Frame] = []
        deadline = time.monotonic() + grace_s
        while self.is_alive and time.monotonic() < deadline:
            late += self._hear_in_peace(POLL_S)
        while self._signal(signal.SIGKILL):  # also what a dead leader has left in its group
            self._reap()
            time.sleep(POLL_S)
        self._guard.release(self.pid)
        while self._pipes.get_map():
            late += self._hear_in_peace(0)
        self._close()
        return late

    def _make_room(self) -> None:
        """Let a large spec into the pipe at once; without it, it waits until the child reads."""
        # Linux gives a user who is not root only so much for all his pipes together.
        with suppress(OSError, AttributeError):
            fcntl.fcntl(self._process.stdin, fcntl.F_SETPIPE_SZ, PIPE_BYTES)  # type: ignore[arg-type]

    def _streams(self) -> list[tuple[Any, str]]:
        pipes = [(self._process.stdout, STDOUT), (self._process.stderr, STDERR)]
        return [(self._frames_fd, FRAMES), *pipes]

    def _cut(self, data: bytes) -> list[Frame]:
        try:
            frames = list(self._reader.feed(data))
        except ValueError:
            self._pipes.unregister(self._frames_fd)  # nothing behind it can be trusted
            raise
        for frame in frames:
            if frame.type is FrameType.READY:
                self.ready = frame.header
        return frames

    def _hear_in_peace(self, timeout_s: float) -> list[Frame]:
        try:
            return self.hear(timeout_s)
        except ValueError:
            return []

    def _stop_listening(self) -> None:
        for key in list(self._pipes.get_map().values()):
            self._pipes.unregister(key.fileobj)

    def _reap(self) -> None:
        """Let go of the dead in the group, so that the group can be seen to be gone."""
        if not self.is_alive:
            # Its orphans are ours where this process is their reaper, else somebody else's.
            with suppress(ChildProcessError):
                os.waitpid(-self.pid, os.WNOHANG)

    def _signal(self, number: signal.Signals) -> bool:
        """Signal the group; False when nobody is left in it."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def _close(self) -> None:
        self._pipes.close()
        os.close(self._frames_fd)
        self._frames_fd = -1
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None  # noqa: S101 - opened above
            with suppress(BrokenPipeError):
                stream.close()

"""TrainerProcess: fork a trainer, hand it one job, read its frames and log, end its group."""

import fcntl
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any, Final

from ampspec.telemetry.frames import Frame, FrameReader, FrameType
from infra.isolation.process_group_tracker import ProcessGroupTracker
from worker.trainer.fork_server import JOB, STANDBY, ForkServer
from worker.trainer.frame_validator import FrameValidator
from worker.trainer.isolation import TrainerFolder
from worker.trainer.log_capture import STDERR, STDOUT, LogCapture
from worker.trainer.trainer_status import TrainerStatus

PROGRAM: Final = (sys.executable, "-P", "-u", "-m", "worker.trainer.child.trainer_process")
"""The command of the fork server; `--requests-fd N` is appended.

`-P`: no file of the current folder stands in for a module. `-u` (unbuffered): the log of a killed
trainer is complete.
"""
FRAMES: Final = "frames"
STATUS: Final = "status"
READ_BYTES: Final = 1 << 16
PIPE_BYTES: Final = 1 << 20
"""Larger than any spec, so that writing the job never blocks on the child."""
POLL_S: Final = 0.02
SIGNAL_EXIT_CODE: Final = 128
"""bubblewrap ends with this plus the number of the signal that ended the trainer."""


class TrainerProcess:
    """A process with TensorFlow imported that runs one job.

    It is a child of the fork server and dies with it. While the fork server still loads its
    modules there is no process yet; an assigned job waits here until then.

    Args:
        server: Forks the process. Raises OSError when the fork server cannot be started.
        tracker: Registers the process's group before the process gets a job.
        folder: The only folder it may write to; removed by the owner of this object. None: the
            process is not isolated.
        is_standby: No job waits for it, so that it warms up first.
    """

    def __init__(
        self,
        server: ForkServer,
        tracker: ProcessGroupTracker,
        folder: TrainerFolder | None = None,
        *,
        is_standby: bool = False,
    ) -> None:
        self.ready: dict[str, Any] | None = None
        """The header of its READY frame (hardware, library versions); None before that frame."""
        self.was_alive_at_end = False
        """Whether `end` had to kill it."""
        self.invalid_telemetry: str | None = None
        """The error in its first invalid frame; no later frame is read."""
        self.log_capture = LogCapture()
        self._server, self._tracker, self.folder = server, tracker, folder
        self._reader, self._validator = FrameReader(), FrameValidator()
        self._pipes = selectors.DefaultSelector()
        self._is_registered = self._is_abandoned = self._is_ended = False
        self._job: bytes | None = None
        self._must_end = False
        with ExitStack() as ours, ExitStack() as theirs:
            ours.enter_context(self._pipes)
            connection = self._open(ours, theirs, STANDBY if is_standby else JOB)
            self._ours = ours.pop_all()
        self._pipes.register(connection, selectors.EVENT_READ, STATUS)

    @property
    def pid(self) -> int | None:
        """Its process id, which is also its group's id; None until the process exists."""
        return self._status.pid

    @property
    def is_alive(self) -> bool:
        """True until its exit is known, also before it exists."""
        self._poll_status()
        return self._status.exit_code is None

    @property
    def exit_code(self) -> int:
        """Its exit code, negative for a signal as in subprocess; valid after `end`.

        The fork server's exit code when that exited before it forked the trainer.
        """
        code = self._status.exit_code
        if code is None:
            return -signal.SIGKILL
        if self._is_in_bubblewrap and code > SIGNAL_EXIT_CODE:
            return SIGNAL_EXIT_CODE - code
        return code

    @property
    def died_with_server(self) -> bool:
        """Whether it ended because the fork server did."""
        return self._status.died_with_server

    @property
    def has_more_frames(self) -> bool:
        """False once the pipe of frames has ended."""
        return any(key.data == FRAMES for key in self._pipes.get_map().values())

    def assign(self, job: Mapping[str, Any]) -> None:
        """Send the job, now or as soon as the process exists.

        A process that is already dead is noticed later, by the end of its frames.
        """
        self._job = json.dumps(job, ensure_ascii=False).encode() + b"\n"
        if self._is_registered:
            self._send_job()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message to a trainer that has its job; one that has ended never reads it."""
        if self._is_registered and not self._is_ended:
            with suppress(BrokenPipeError):
                _write_all(self._stdin, json.dumps(message).encode() + b"\n")

    def read_frames(self, timeout_s: float) -> list[Frame]:
        """Read the frames that arrive within the timeout, and log output into `log_capture`.

        All of them are valid: the first other one ends the frames, and is `invalid_telemetry`.
        """
        frames: list[Frame] = []
        was_alive = self.is_alive  # checked first: its last output precedes its exit
        selected = self._pipes.select(timeout_s)
        for key, _ in selected:
            if key.data == STATUS:
                self._poll_status()
                continue
            data = os.read(key.fd, READ_BYTES)
            if not data:
                self._pipes.unregister(key.fileobj)
            if key.data == FRAMES:
                frames += self._parse_frames(data)
            else:
                self.log_capture.feed(key.data, data)
        if not selected and not was_alive:
            # A process that outlived it may hold its pipes open forever.
            self._unregister_pipes()
        return frames

    def end_without_grace(self) -> None:
        """Make a call of `end`, in another thread, stop waiting for the process."""
        self._must_end = True

    def terminate(self) -> None:
        """Send SIGTERM to the group; a process that does not exist yet never gets the job."""
        self._poll_status()
        if not self._signal(signal.SIGTERM) and self.pid is None:
            self._is_abandoned = True
            self._unregister_pipes(FRAMES)

    def end(self, grace_s: float) -> list[Frame]:
        """Wait `grace_s` for the process, kill its group, and wait until the group is empty.

        Returns the frames that were not read before.
        """
        if self._is_ended:  # its process id may have been reused
            return []
        remaining_frames: list[Frame] = []
        deadline = time.monotonic() + grace_s
        while self._may_continue() and time.monotonic() < deadline:
            remaining_frames += self.read_frames(POLL_S)
        self.was_alive_at_end = self.is_alive
        if self.pid is not None:
            remaining_frames += self._end_group(self.pid)
        # Else it never had a job, and the fork server ends a trainer that it is just forking.
        self._ours.close()
        self._is_ended = True
        return remaining_frames

    def discard(self) -> None:
        """End a process without a job, and remove its folder."""
        self.end(grace_s=0)
        if self.folder is not None:
            self.folder.close()

    def _may_continue(self) -> bool:
        must_end = self._is_abandoned or self._must_end or self.invalid_telemetry is not None
        return self.is_alive and not must_end

    @property
    def _is_in_bubblewrap(self) -> bool:
        return self.folder is not None and self.folder.confinement.bubblewrap is not None

    def _open(self, ours: ExitStack, theirs: ExitStack, kind: bytes) -> socket.socket:
        """Create the pipes, and request a process that gets their other ends."""
        stdin, self._stdin = _pipe(theirs, ours)
        self._enlarge_stdin_pipe()
        child_ends = [stdin]
        for name in (STDOUT, STDERR, FRAMES):
            own_end, end = _pipe(ours, theirs)
            self._pipes.register(own_end, selectors.EVENT_READ, name)
            child_ends.append(end)
        connection, its_end = socket.socketpair()
        ours.enter_context(connection)
        theirs.enter_context(its_end)
        confinement = self.folder.confinement.to_json() if self.folder is not None else None
        connection.sendall(json.dumps(confinement).encode() + b"\n")
        server_process = self._server.request_trainer(kind, [*child_ends, its_end.fileno()])
        self._status = TrainerStatus(connection, server_process)
        return connection

    def _enlarge_stdin_pipe(self) -> None:
        """Enlarge the pipe for large specs; where that fails, writing blocks until it is read."""
        # Linux limits the total size of an unprivileged user's pipes (pipe-user-pages-soft).
        with suppress(OSError, AttributeError):
            fcntl.fcntl(self._stdin, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def _poll_status(self) -> None:
        """Read the fork server's reports, and send a waiting job once the process exists."""
        self._status.poll()
        if self.pid is not None and not self._is_registered:
            self._is_registered = True
            self._tracker.register(self.pid)  # before it can start other processes
            self._send_job()
        if self._status.is_closed:
            self._unregister_pipes(STATUS)
            if not self._is_registered:
                self.log_capture.feed(STDERR, self._status.error.encode())

    def _send_job(self) -> None:
        if self._job is not None and not self._is_abandoned:
            with suppress(BrokenPipeError):
                _write_all(self._stdin, self._job)

    def _end_group(self, group: int) -> list[Frame]:
        remaining_frames: list[Frame] = []
        self._signal(signal.SIGKILL)
        while self.is_alive:
            remaining_frames += self.read_frames(POLL_S)
            self._status.kill_silent_server()
        self._status.reap()
        self._server.record_peak(self._status.peak_bytes)
        while self._signal(signal.SIGKILL):  # processes that the trainer left in its group
            # Orphans are children of this process only where it is a subreaper.
            with suppress(ChildProcessError):
                os.waitpid(-group, os.WNOHANG)
            time.sleep(POLL_S)
        self._tracker.unregister(group)
        while self._pipes.get_map():
            remaining_frames += self.read_frames(0)
        return remaining_frames

    def _parse_frames(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        try:
            for frame in self._reader.feed(data):
                frames.append(self._validator.validate(frame))
                if frame.type is FrameType.READY:
                    self.ready = frames[-1].header
        except ValueError as error:
            self.invalid_telemetry = str(error)
            self._unregister_pipes(FRAMES)
        return frames

    def _unregister_pipes(self, *names: str) -> None:
        """Stop reading these pipes, or all without names."""
        for key in list(self._pipes.get_map().values()):
            if not names or key.data in names:
                self._pipes.unregister(key.fileobj)

    def _signal(self, number: signal.Signals) -> bool:
        """Send a signal to the group; False when the group is empty."""
        if self.pid is None:
            return False
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """The reading and the writing end of a new pipe; each stack closes its end."""
    reading, writing = os.pipe()
    reader.callback(os.close, reading)
    writer.callback(os.close, writing)
    return reading, writing


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]

"""One trainer process: forked in its own group, fed one job, read, and seen to its end."""

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

from ampcore.series.frames import Frame, FrameReader, FrameType
from worker.fork_server import JOB, STANDBY, ForkServer
from worker.guard import Guard
from worker.isolation import TrainerFolder
from worker.printed import STDERR, STDOUT, Printed
from worker.trainer_status import TrainerStatus

PROGRAM: Final = (sys.executable, "-u", "-m", "ampcore.child")
"""The fork server; `--requests-fd N` is added to this.

Unbuffered: what a trainer has printed is in the log also when it is killed.
"""
FRAMES: Final = "frames"
STATUS: Final = "status"
READ_BYTES: Final = 1 << 16
PIPE_BYTES: Final = 1 << 20
"""Room for the largest spec, so that handing it over never waits for the child."""
POLL_S: Final = 0.02


class TrainerProcess:
    """A process with TensorFlow imported that waits for its one job.

    It is a child of the fork server, and dies with it. Until that has loaded its modules there is
    no process yet: the job then waits here.

    Args:
        server: Is asked for the process. Raises OSError when it cannot be started.
        guard: Is told of the process's group before there is a job in it.
        folder: What it is confined to; whoever ends it removes it. None: it is not confined.
        is_standby: No job waits for it, so there is time to rehearse one.
    """

    def __init__(
        self,
        server: ForkServer,
        guard: Guard,
        folder: TrainerFolder | None = None,
        *,
        is_standby: bool = False,
    ) -> None:
        self.ready: dict[str, Any] | None = None
        """What it said of its machine and its libraries, once it stands by."""
        self.printed = Printed()
        self._server, self._guard, self.folder = server, guard, folder
        self._reader = FrameReader()
        self._pipes = selectors.DefaultSelector()
        self._is_watched = self._is_given_up = self._is_ended = False
        self._job: bytes | None = None
        with ExitStack() as ours, ExitStack() as theirs:
            ours.enter_context(self._pipes)
            connection = self._open(ours, theirs, STANDBY if is_standby else JOB)
            self._ours = ours.pop_all()
        self._pipes.register(connection, selectors.EVENT_READ, STATUS)

    @property
    def pid(self) -> int | None:
        """Its number, which is its group's, too; None until the process exists."""
        return self._status.pid

    @property
    def is_alive(self) -> bool:
        """True until its end is known, also while it does not exist yet."""
        self._look()
        return self._status.exit_code is None

    @property
    def exit_code(self) -> int:
        """How it ended; negative for a signal, as in subprocess. Ask when `end` has returned.

        That of the fork server where that has ended before there was a trainer.
        """
        code = self._status.exit_code
        return -signal.SIGKILL if code is None else code

    @property
    def died_with_server(self) -> bool:
        """Whether it has ended since the process that it was forked from did."""
        return self._status.died_with_server

    @property
    def tells_more(self) -> bool:
        """False when no frame will come any more."""
        return any(key.data == FRAMES for key in self._pipes.get_map().values())

    def assign(self, job: Mapping[str, Any]) -> None:
        """Hand over the job.

        It gets it once it exists. A process that is dead already is found out by the end of its
        frames.
        """
        self._job = json.dumps(job, ensure_ascii=False).encode() + b"\n"
        if self._is_watched:
            self._hand_over()

    def hear(self, timeout_s: float) -> list[Frame]:
        """Read what has come in time: the frames, and into `printed` what was printed.

        Raises ValueError on bytes that are no frames.
        """
        frames: list[Frame] = []
        was_alive = self.is_alive  # asked first: its last words come before its end
        heard = self._pipes.select(timeout_s)
        for key, _ in heard:
            if key.data == STATUS:
                self._look()
                continue
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
        """Ask the whole group to stop; where there is no process yet, the job will not have one."""
        self._look()
        if not self._signal(signal.SIGTERM) and self.pid is None:
            self._is_given_up = True
            self._stop_listening(FRAMES)

    def end(self, grace_s: float) -> list[Frame]:
        """Wait `grace_s` for the process, then kill its group; return when the group is gone.

        Returns the frames that nobody has heard yet.
        """
        if self._is_ended:  # its number may belong to somebody else by now
            return []
        late: list[Frame] = []
        deadline = time.monotonic() + grace_s
        while self.is_alive and not self._is_given_up and time.monotonic() < deadline:
            late += self._hear_in_peace(POLL_S)
        if self.pid is not None:
            late += self._end_group(self.pid)
        # Else it never had a job, and the fork server ends what it may be forking right now.
        self._ours.close()
        self._is_ended = True
        return late

    def discard(self) -> None:
        """End it, and remove its folder: it never had a job."""
        self.end(grace_s=0)
        if self.folder is not None:
            self.folder.close()

    def _open(self, ours: ExitStack, theirs: ExitStack, kind: bytes) -> socket.socket:
        """Make the pipes, and ask for a process at their other ends."""
        stdin, self._stdin = _pipe(theirs, ours)
        self._make_room()
        there = [stdin]
        for name in (STDOUT, STDERR, FRAMES):
            here, end = _pipe(ours, theirs)
            self._pipes.register(here, selectors.EVENT_READ, name)
            there.append(end)
        connection, its_end = socket.socketpair()
        ours.enter_context(connection)
        theirs.enter_context(its_end)
        rules = self.folder.rules.to_json() if self.folder is not None else None
        connection.sendall(json.dumps(rules).encode() + b"\n")
        launched = self._server.ask(kind, [*there, its_end.fileno()])
        self._status = TrainerStatus(connection, launched)
        return connection

    def _make_room(self) -> None:
        """Let a large spec into the pipe at once; without it, it waits until the child reads."""
        # Linux gives a user who is not root only so much for all his pipes together.
        with suppress(OSError, AttributeError):
            fcntl.fcntl(self._stdin, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def _look(self) -> None:
        """Hear what the fork server says of the process."""
        self._status.look()
        if self.pid is not None and not self._is_watched:
            self._is_watched = True
            self._guard.watch(self.pid)  # before there can be anything else in its group
            self._hand_over()
        if self._status.is_over:
            self._stop_listening(STATUS)
            if not self._is_watched:
                self.printed.feed(STDERR, self._status.complaint.encode())

    def _hand_over(self) -> None:
        if self._job is not None and not self._is_given_up:
            with suppress(BrokenPipeError):
                _write_all(self._stdin, self._job)

    def _end_group(self, group: int) -> list[Frame]:
        late: list[Frame] = []
        self._signal(signal.SIGKILL)
        while self.is_alive:
            late += self._hear_in_peace(POLL_S)
            self._status.insist()
        self._status.reap()
        self._server.saw_peak(self._status.peak_bytes)
        while self._signal(signal.SIGKILL):  # what a dead leader has left in its group
            # Its orphans are ours where this process is their reaper, else somebody else's.
            with suppress(ChildProcessError):
                os.waitpid(-group, os.WNOHANG)
            time.sleep(POLL_S)
        self._guard.release(group)
        while self._pipes.get_map():
            late += self._hear_in_peace(0)
        return late

    def _cut(self, data: bytes) -> list[Frame]:
        try:
            frames = list(self._reader.feed(data))
        except ValueError:
            self._stop_listening(FRAMES)  # nothing behind it can be trusted
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

    def _stop_listening(self, *names: str) -> None:
        """To these, or to all."""
        for key in list(self._pipes.get_map().values()):
            if not names or key.data in names:
                self._pipes.unregister(key.fileobj)

    def _signal(self, number: signal.Signals) -> bool:
        """Signal the group; False when nobody is left in it."""
        if self.pid is None:
            return False
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """The reading and the writing end of a pipe, which these will close."""
    reading, writing = os.pipe()
    reader.callback(os.close, reading)
    writer.callback(os.close, writing)
    return reading, writing


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]

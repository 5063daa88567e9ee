"""Fork trainers on request from a process that has loaded its modules: the loop of that process.

Its supervisor (`worker.fork_server`) speaks to it over an inherited Unix socket. A request is
one byte, JOB or STANDBY, with five descriptors: standard input, output and error of the trainer,
its frames, and a socket for its status. On that socket a line of JSON waits already: how the
trainer is to be confined (`ampcore.isolation.Confinement`), or null. Back go lines of JSON:

- `{"pid": …}` once the trainer's process exists, in a process group of its own;
- `{"exit": …}` when it has ended: its exit code, negative for a signal;
- `{"peak_bytes": …}` when its entry in the process table is gone, and the socket is closed.

An ended trainer keeps its entry, and so its number, until the supervisor sends REAP: until then
a signal to its group reaches nobody else. When the supervisor closes the status socket, the
trainer is killed. `{"error": …}` says that no process could be made.

This file needs the standard library only.
"""

import ctypes
import json
import os
import selectors
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ampcore.isolation import Confinement, confine, end_all_of, hide_memory, imported_files

JOB: Final = b"J"
STANDBY: Final = b"S"
REAP: Final = b"R"
LOADED: Final = b"L"
"""What the server says first, once it listens."""

DESCRIPTORS: Final = 5
"""What comes with a request: standard input, output and error, frames, status."""
PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
PR_SET_NAME: Final = 15
SERVER_NAME: Final = "ampcore-forks"
STANDBY_NAME: Final = "ampcore-standby"
TRAINER_NAME: Final = "ampcore-trainer"
"""What `ps -o comm` shows: of all of them the command is that of the server. 15 letters at most."""
IGNORED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""An init system that stops a worker signals all its processes; the trainers must get to save."""
OOM_SCORE_ADJ: Final = 500
"""A machine that runs out of memory shall choose a trainer, and not what all are forked from."""

Train = Callable[[int, bool], int]
"""Runs one trainer, given the descriptor of its frames and whether it only stands by for now;
returns its exit code."""


def serve(requests_fd: int, train: Train, *, also_writable: Sequence[Path] = ()) -> None:
    """Fork a trainer for each request, until the supervisor closes its end.

    Returns in the server only: a trainer's process ends with the exit code of `train`.

    Args:
        requests_fd: The connection to the supervisor.
        train: What each trainer runs.
        also_writable: What a confined trainer may change beside its own folder.
    """
    die_with_parent()
    hide_memory()
    call_this_process(SERVER_NAME)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=requests_fd) as requests:
        requests.set_inheritable(False)
        with suppress(BrokenPipeError):
            requests.sendall(LOADED)
        _Server(requests, train, also_writable).run()


def die_with_parent() -> None:
    """Ask Linux to kill this process when the thread that started it is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def call_this_process(name: str) -> None:
    """Give it a name that `ps` shows, where the system has such."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())


class _Trainer:
    """A forked trainer, as the server knows it."""

    def __init__(self, pid: int, status: socket.socket, user: int | None = None) -> None:
        self.pid = pid
        self._status, self._user = status, user
        self._ended = self._dropped = False

    def say(self, **facts: Any) -> None:
        # A supervisor that has closed its end is found out by the end of what it sends.
        with suppress(OSError):
            self._status.sendall(json.dumps(facts).encode() + b"\n")

    def look(self) -> bool:
        """Report the end, once; True when the supervisor has dropped it, and nothing is left."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT  # its entry stays
        if not self._ended and (found := os.waitid(os.P_PID, self.pid, options)) is not None:
            self._ended = True
            ended_itself = found.si_code == os.CLD_EXITED
            self.say(exit=found.si_status if ended_itself else -found.si_status)
        if self._ended and self._dropped:
            self._reap()
            return True
        return False

    def drop(self) -> None:
        """Kill what is left of it; its number is let go of once it has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self._user is not None:
            _end_what_left_the_group(self._user)
        self._dropped = True

    def close(self) -> None:
        """In another trainer, or at the end: close what belongs to it."""
        self._status.close()

    def _reap(self) -> None:
        _, _, usage = os.wait4(self.pid, 0)
        unit = 1 if sys.platform == "darwin" else 1024
        self.say(peak_bytes=usage.ru_maxrss * unit)
        self.close()


class _Server:
    """The loop, in one thread."""

    def __init__(
        self, requests: socket.socket, train: Train, also_writable: Sequence[Path]
    ) -> None:
        self._requests, self._train = requests, train
        self._imported, self._also_writable = imported_files(), also_writable
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)
        self._trainers: dict[int, _Trainer] = {}
        self._woken, self._wakes = os.pipe()
        for end in (self._woken, self._wakes):
            os.set_blocking(end, False)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def run(self) -> None:
        """Serve until the supervisor is gone."""
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._requests:
                    if not self._receive():
                        return
                elif key.fd == self._woken:
                    self._look_at_all()
                else:
                    self._obey(key.fileobj, key.data)

    def _receive(self) -> bool:
        """Take one request; False when there will be no more."""
        # One byte: the kernel never joins the descriptors of two requests to one read.
        try:
            said, descriptors, _, _ = socket.recv_fds(self._requests, 1, DESCRIPTORS)
        except ConnectionError:
            return False
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if not said:
            return False
        if len(descriptors) == DESCRIPTORS:
            self._fork(descriptors, is_standby=said == STANDBY)
        else:  # the kernel drops those that are more than this process may have open
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _fork(self, descriptors: list[int], *, is_standby: bool) -> None:
        *streams, frames, status_fd = descriptors
        status = socket.socket(fileno=status_fd)
        server = os.getpid()
        try:
            rules = _read_rules(status)
        except EOFError:  # its supervisor has gone
            status.close()
            for descriptor in (*streams, frames):
                os.close(descriptor)
            return
        # A signal to the new group waits until the trainer is ready to die of it.
        signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
        try:
            pid = _fork_quietly()
        except OSError as error:
            _Trainer(0, status).say(error=str(error))
            status.close()
            pid = -1
        if pid == 0:
            _become_trainer(self, server, streams, frames, status)
            call_this_process(STANDBY_NAME if is_standby else TRAINER_NAME)
            _leave(lambda: self._run(rules, server, frames, is_standby=is_standby))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)
        for descriptor in (*streams, frames):
            os.close(descriptor)
        if pid > 0:
            with suppress(OSError):  # it has done so itself, or is dead already
                os.setpgid(pid, pid)
            user = rules.user if rules is not None else None
            trainer = self._trainers[pid] = _Trainer(pid, status, user)
            self._selector.register(status, selectors.EVENT_READ, trainer)
            trainer.say(pid=pid)

    def _run(self, rules: Confinement | None, server: int, frames: int, *, is_standby: bool) -> int:
        if rules is not None:
            confine(rules, self._imported, self._also_writable)
            _die_with(server)  # another user is not bound to it any more
        return self._train(frames, is_standby)

    def _look_at_all(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        for trainer in list(self._trainers.values()):
            self._look_at(trainer)

    def _look_at(self, trainer: _Trainer) -> None:
        if trainer.look():
            del self._trainers[trainer.pid]

    def _obey(self, status: Any, trainer: _Trainer) -> None:
        """REAP, or the end of the connection: either way the supervisor is done with it."""
        with suppress(ConnectionError):
            status.recv(1)
        self._selector.unregister(status)
        trainer.drop()
        self._look_at(trainer)

    def forget(self) -> None:
        """In a trainer: close what belongs to the server."""
        self._selector.close()
        self._requests.close()
        os.close(self._woken)
        os.close(self._wakes)
        for trainer in self._trainers.values():
            trainer.close()


def _fork_quietly() -> int:
    with warnings.catch_warnings():
        # From 3.12 on Python warns where other threads are. Those that are here, of OpenBLAS and
        # jemalloc, are seen to by handlers of their own (docs/adr/0029).
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _read_rules(status: socket.socket) -> Confinement | None:
    """How the next trainer is to be confined: the supervisor has written it before it asked.

    Raises EOFError where there is no such line.
    """
    line = b""
    while not line.endswith(b"\n"):
        if not (piece := status.recv(1)):
            raise EOFError
        line += piece
    values = json.loads(line)
    return Confinement.from_json(values) if values is not None else None


def _end_what_left_the_group(user: int) -> None:
    """Kill what a trainer with a user of its own has started in other groups and sessions."""
    pid = _fork_quietly()
    if pid == 0:
        try:
            end_all_of(user)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _die_with(server: int) -> None:
    die_with_parent()
    if os.getppid() != server:  # it died before that was arranged
        os._exit(1)


def _become_trainer(
    server: "_Server", parent: int, streams: list[int], frames: int, status: socket.socket
) -> None:
    """In the new process: a group of its own, its own descriptors, and the usual signals."""
    os.setpgid(0, 0)
    _die_with(parent)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    server.forget()
    status.close()
    for stream, descriptor in enumerate(streams):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    _be_first_when_memory_runs_out()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)


def _be_first_when_memory_runs_out() -> None:
    hide_memory(hidden=False)  # else the file is root's
    with suppress(OSError):  # another system than Linux
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE_ADJ), encoding="ascii")
    hide_memory()


def _leave(train: Callable[[], int]) -> None:
    """Run it, and end this process with its exit code, as Python ends a program."""
    code = 1
    try:
        code = train()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # ends executors, joins others
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        # What waits to run at the end of the server is not this process's to run.
        os._exit(code)

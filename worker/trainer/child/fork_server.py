"""The fork server: forks trainers on request from a process that has loaded their modules.

Its supervisor (`worker.trainer.fork_server`) sends requests over an inherited Unix socket. A
request is one byte, JOB or STANDBY, with five descriptors: standard input, output and error of the
trainer, its frames, and a socket for its status. The supervisor has written a line of JSON to that
socket already: the `infra.isolation.Confinement` of the trainer, or null. The server responds with
lines of JSON:

- `{"pid": …}` once the trainer's process exists, in a process group of its own;
- `{"exit": …}` when it has ended: its exit code, negative for a signal;
- `{"peak_bytes": …}` after it was reaped; then the socket is closed.

An ended trainer stays a zombie and keeps its pid until the supervisor sends REAP: until then a
signal to its group reaches no other process. When the supervisor closes the status socket, the
trainer is killed. `{"error": …}` says that the fork failed.

This module needs the standard library only.
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
from typing import Any, Final, NoReturn

from infra.isolation import Confinement, confine, hide_memory, imported_files, kill_all_processes_of
from infra.isolation.sandboxed_trainer import replace_process
from infra.parent_death import die_with_parent

JOB: Final = b"J"
STANDBY: Final = b"S"
REAP: Final = b"R"
LOADED: Final = b"L"
"""The first byte that the server sends, once it listens."""

DESCRIPTORS: Final = 5
"""The descriptors of a request: standard input, output and error, frames, status."""
PR_SET_NAME: Final = 15  # linux/prctl.h
SERVER_NAME: Final = "ampcore-forks"
STANDBY_NAME: Final = "ampcore-standby"
TRAINER_NAME: Final = "ampcore-trainer"
"""The name in `ps -o comm`, at most 15 characters; the command line is that of the server."""
IGNORED_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
"""An init system that stops a worker signals all its processes; trainers must be able to save.
So does Slurm with SIGUSR1, before the time limit of an allocation: trainers ignore that, too."""
OOM_SCORE_ADJ: Final = 500
"""Makes Linux kill a trainer, not the fork server, when memory runs out."""

RunTrainer = Callable[[int, bool], int]
"""Runs one trainer and returns its exit code; takes the descriptor of its frames, and whether it
is a standby, which warms up before it has a job."""


def serve(requests_fd: int, train: RunTrainer, *, extra_writable: Sequence[Path] = ()) -> None:
    """Fork a trainer for each request, until the supervisor closes its end of the socket.

    It returns in the server only: a trainer exits with the exit code of `train`.

    Args:
        requests_fd: The connection to the supervisor.
        train: What each trainer runs.
        extra_writable: Paths that a confined trainer may write besides its own folder.
    """
    die_with_parent()
    hide_memory()
    set_process_name(SERVER_NAME)
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=requests_fd) as requests:
        requests.set_inheritable(False)
        with suppress(BrokenPipeError):
            requests.sendall(LOADED)
        _Server(requests, train, extra_writable).run()


def set_process_name(name: str) -> None:
    """Set the name that `ps` shows, on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())


def run_alone(frames_fd: int, train: RunTrainer) -> NoReturn:
    """Be one trainer, which was started with exec; exits with the exit code of `train`."""
    os.set_inheritable(frames_fd, False)
    set_process_name(TRAINER_NAME)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _run_and_exit(lambda: train(frames_fd, False))


class _Trainer:
    """A forked trainer, in the server."""

    def __init__(self, pid: int, status: socket.socket, user: int | None = None) -> None:
        self.pid = pid
        self._status, self._user = status, user
        self._ended = self._released = False

    def send(self, **facts: Any) -> None:
        # A supervisor that has closed its end is noticed when the server reads.
        with suppress(OSError):
            self._status.sendall(json.dumps(facts).encode() + b"\n")

    def poll(self) -> bool:
        """Report the exit, once; True when the trainer was reaped after its release."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT  # it stays a zombie
        if not self._ended and (status := os.waitid(os.P_PID, self.pid, options)) is not None:
            self._ended = True
            ended_itself = status.si_code == os.CLD_EXITED
            self.send(exit=status.si_status if ended_itself else -status.si_status)
        if self._ended and self._released:
            self._reap()
            return True
        return False

    def kill(self) -> None:
        """Kill its processes; it is reaped once it has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self._user is not None:
            _kill_processes_outside_group(self._user)
        self._released = True

    def close(self) -> None:
        """Close its status socket; called in another trainer and at the end."""
        self._status.close()

    def _reap(self) -> None:
        _, _, usage = os.wait4(self.pid, 0)
        unit = 1 if sys.platform == "darwin" else 1024
        self.send(peak_bytes=usage.ru_maxrss * unit)
        self.close()


class _Server:
    """The event loop of the server, in one thread."""

    def __init__(
        self, requests: socket.socket, train: RunTrainer, extra_writable: Sequence[Path]
    ) -> None:
        self._requests, self._train = requests, train
        self._imported, self._extra_writable = imported_files(), extra_writable
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)
        self._trainers: dict[int, _Trainer] = {}
        self._wakeup_read_fd, self._wakeup_write_fd = os.pipe()
        for end in (self._wakeup_read_fd, self._wakeup_write_fd):
            os.set_blocking(end, False)
        self._selector.register(self._wakeup_read_fd, selectors.EVENT_READ)

    def run(self) -> None:
        """Serve until the supervisor closes its end."""
        signal.set_wakeup_fd(self._wakeup_write_fd, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._requests:
                    if not self._receive():
                        return
                elif key.fd == self._wakeup_read_fd:
                    self._poll_trainers()
                else:
                    self._handle_status(key.fileobj, key.data)

    def _receive(self) -> bool:
        """Read one request; False when the supervisor has closed its end."""
        # One byte: the kernel never returns the descriptors of two requests in one read.
        try:
            request, descriptors, _, _ = socket.recv_fds(self._requests, 1, DESCRIPTORS)
        except ConnectionError:
            return False
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if not request:
            return False
        if len(descriptors) == DESCRIPTORS:
            self._fork(descriptors, is_standby=request == STANDBY)
        else:  # the kernel drops descriptors above this process's limit of open files
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _fork(self, descriptors: list[int], *, is_standby: bool) -> None:
        *streams, frames, status_fd = descriptors
        status = socket.socket(fileno=status_fd)
        server = os.getpid()
        try:
            confinement = _read_confinement(status)
        except EOFError:  # the supervisor is gone
            status.close()
            for descriptor in (*streams, frames):
                os.close(descriptor)
            return
        # A signal to the new group stays pending until the trainer has its handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED_SIGNALS)
        try:
            pid = _fork_process()
        except OSError as error:
            _Trainer(0, status).send(error=str(error))
            status.close()
            pid = -1
        if pid == 0:
            _become_trainer(self, server, streams, frames, status)
            set_process_name(STANDBY_NAME if is_standby else TRAINER_NAME)
            _run_and_exit(lambda: self._run(confinement, server, frames, is_standby=is_standby))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED_SIGNALS)
        for descriptor in (*streams, frames):
            os.close(descriptor)
        if pid > 0:
            with suppress(OSError):  # it has done so itself, or has ended already
                os.setpgid(pid, pid)
            user = confinement.user if confinement is not None else None
            trainer = self._trainers[pid] = _Trainer(pid, status, user)
            self._selector.register(status, selectors.EVENT_READ, trainer)
            trainer.send(pid=pid)

    def _run(
        self, confinement: Confinement | None, server: int, frames: int, *, is_standby: bool
    ) -> int:
        if confinement is not None:
            confinement.join_cgroup()
            if confinement.bubblewrap is not None:
                replace_process(confinement, self._imported, self._extra_writable, frames)
            confine(confinement, self._imported, self._extra_writable)
            _die_with_server(server)  # a change of user resets it
        return self._train(frames, is_standby)

    def _poll_trainers(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wakeup_read_fd, 4096)
        for trainer in list(self._trainers.values()):
            self._poll_trainer(trainer)

    def _poll_trainer(self, trainer: _Trainer) -> None:
        if trainer.poll():
            del self._trainers[trainer.pid]

    def _handle_status(self, status: Any, trainer: _Trainer) -> None:
        """On REAP or the end of the connection, the supervisor no longer needs the trainer."""
        with suppress(ConnectionError):
            status.recv(1)
        self._selector.unregister(status)
        trainer.kill()
        self._poll_trainer(trainer)

    def close_in_child(self) -> None:
        """Close the server's descriptors in a trainer."""
        self._selector.close()
        self._requests.close()
        os.close(self._wakeup_read_fd)
        os.close(self._wakeup_write_fd)
        for trainer in self._trainers.values():
            trainer.close()


def _fork_process() -> int:
    with warnings.catch_warnings():
        # From 3.12 on Python warns when other threads exist. The ones here, of OpenBLAS and
        # jemalloc, have their own fork handlers (docs/adr/0029).
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _read_confinement(status: socket.socket) -> Confinement | None:
    """The confinement of the next trainer, which the supervisor writes before its request.

    Raises EOFError without such a line.
    """
    line = b""
    while not line.endswith(b"\n"):
        if not (piece := status.recv(1)):
            raise EOFError
        line += piece
    values = json.loads(line)
    return Confinement.from_json(values) if values is not None else None


def _kill_processes_outside_group(user: int) -> None:
    """Kill the processes that a trainer with a separate user has started in other groups."""
    pid = _fork_process()
    if pid == 0:
        try:
            kill_all_processes_of(user)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _die_with_server(server: int) -> None:
    die_with_parent()
    if os.getppid() != server:  # it died before the prctl call
        os._exit(1)


def _become_trainer(
    server: "_Server", parent: int, streams: list[int], frames: int, status: socket.socket
) -> None:
    """Set up the new process: its own group, its own descriptors, and default signals."""
    os.setpgid(0, 0)
    _die_with_server(parent)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    server.close_in_child()
    status.close()
    for stream, descriptor in enumerate(streams):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    _raise_oom_score()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED_SIGNALS)


def _raise_oom_score() -> None:
    hide_memory(hidden=False)  # otherwise the file belongs to root
    with suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE_ADJ), encoding="ascii")
    hide_memory()


def _run_and_exit(train: Callable[[], int]) -> NoReturn:
    """Run it and exit with its exit code, flushing as Python does at exit."""
    code = 1
    try:
        code = train()
    except SystemExit as exit_request:
        code = (
            exit_request.code
            if isinstance(exit_request.code, int)
            else int(exit_request.code is not None)
        )
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # ends executors, joins others
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        # The exit handlers are the server's; a trainer must not run them.
        os._exit(code)

"""Plans studies in a process of its own: neither the API's threads nor its processor time."""

import os
import pickle
import select
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any, Final, Protocol, TypeVar

from server.errors import Unavailable
from store import cancellation

Value = TypeVar("Value")

PROGRAM: Final = (sys.executable, "-P", "-m", "server.studies.planning_process")
TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.1
"""Between two looks whether the client of a request has left."""
LENGTH: Final = struct.Struct("!Q")


class PlanningFailed(Unavailable):
    """The plan took too long, or its process died."""


class Planner(Protocol):
    """Calls the functions of `server.studies.planning`."""

    def call(self, function: Callable[..., Value], *arguments: Any) -> Value:
        """The result of the function. Raises PlanningFailed and Cancelled."""

    def close(self) -> None:
        """End what it has started."""


class DirectPlanner:
    """Plans in the calling thread; for tests."""

    def call(self, function: Callable[..., Value], *arguments: Any) -> Value:
        """The result of the function."""
        return function(*arguments)

    def close(self) -> None:
        """Nothing was started."""


class ProcessPlanner:
    """Plans in a child process, one plan at a time; it starts with the first plan.

    The child is killed if a plan takes longer than `timeout_s`, or if nobody waits for it any more.
    Only values of this program are pickled, in both directions.
    """

    def __init__(self, timeout_s: float = TIMEOUT_S, *, program: tuple[str, ...] = PROGRAM) -> None:
        self._timeout_s, self._program = timeout_s, program
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def call(self, function: Callable[..., Value], *arguments: Any) -> Value:
        """The result of the function. Raises PlanningFailed and Cancelled."""
        self._wait_for_turn()
        try:
            deadline = time.monotonic() + self._timeout_s
            result: Value = self._ask((function, arguments), deadline)
            return result
        except BaseException:
            self._kill()  # what it would still send belongs to no later plan
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the child; a plan that it makes fails."""
        child = self._child
        if child is not None:
            child.kill()  # who waits for it holds the lock
        with self._lock:
            self._kill()

    def _wait_for_turn(self) -> None:
        """Acquire the lock. Raises PlanningFailed and Cancelled."""
        deadline = time.monotonic() + self._timeout_s
        while not self._lock.acquire(timeout=POLL_S):
            cancellation.check()
            if time.monotonic() > deadline:
                raise PlanningFailed(
                    f"Other studies have been planned for {self._timeout_s:g} s; try again soon."
                )

    def _ask(self, task: Any, deadline: float) -> Any:
        child = self._running_child()
        assert child.stdin is not None and child.stdout is not None  # noqa: S101, PT018 - pipes
        payload = pickle.dumps(task)
        try:
            child.stdin.write(LENGTH.pack(len(payload)) + payload)
            child.stdin.flush()
            pipe = child.stdout.fileno()
            (length,) = LENGTH.unpack(self._read(pipe, LENGTH.size, deadline))
            is_error, value = pickle.loads(self._read(pipe, length, deadline))  # noqa: S301 - of our child
        except (BrokenPipeError, EOFError):
            raise PlanningFailed("The process that plans studies has ended; try again.") from None
        if is_error:
            raise RuntimeError(f"planning failed:\n{value}")
        return value

    def _read(self, pipe: int, size: int, deadline: float) -> bytes:
        """So many bytes. Raises EOFError, PlanningFailed and Cancelled."""
        content = bytearray()
        poll = select.poll()  # of select(), the number of a file would have to be below 1024
        poll.register(pipe, select.POLLIN)
        while len(content) < size:
            cancellation.check()
            if time.monotonic() > deadline:
                raise PlanningFailed(
                    f"Planning the study takes longer than {self._timeout_s:g} s. "
                    "Ask for fewer runs."
                )
            if poll.poll(1000 * POLL_S):
                piece = os.read(pipe, min(size - len(content), 1 << 20))
                if not piece:
                    raise EOFError
                content += piece
        return bytes(content)

    def _running_child(self) -> "subprocess.Popen[bytes]":
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(
                self._program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for this process, which ends the child
            )
        return self._child

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for pipe in (child.stdin, child.stdout):
            with suppress(OSError):  # what is left in the buffer of a broken pipe
                if pipe is not None:
                    pipe.close()
        child.wait()

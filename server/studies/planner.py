"""Plans studies in a process of its own: neither the API's threads nor its processor time."""

import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from threading import Lock
from typing import Any, Final, Protocol, TypeVar

from server.errors import Unavailable
from store import cancellation

Value = TypeVar("Value")

PROGRAM: Final = (sys.executable, "-P", "-m", "server.studies.planning_process")
TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.1
"""Between two looks whether the client of a request has left."""


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
        self._connection: Connection | None = None
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
        """The child's answer. Raises PlanningFailed and Cancelled."""
        try:
            connection = self._connection_to_child()
            connection.send(task)
            while not connection.poll(POLL_S):
                cancellation.check()
                if time.monotonic() > deadline:
                    raise PlanningFailed(
                        f"Planning the study takes longer than {self._timeout_s:g} s. "
                        "Ask for fewer runs."
                    )
            is_error, value = connection.recv()
        except (OSError, EOFError):
            raise PlanningFailed("The process that plans studies has ended; try again.") from None
        if is_error:
            raise RuntimeError(f"planning failed:\n{value}")
        return value

    def _connection_to_child(self) -> Connection:
        if self._connection is None or self._child is None or self._child.poll() is not None:
            self._kill()
            self._connection, end_of_child = Pipe()
            with end_of_child:
                number = end_of_child.fileno()
                self._child = subprocess.Popen(
                    (*self._program, str(number)),
                    pass_fds=[number],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for this process, which ends the child
                )
        return self._connection

    def _kill(self) -> None:
        child, self._child = self._child, None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if child is not None:
            child.kill()
            child.wait()

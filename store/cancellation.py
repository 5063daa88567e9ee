"""Cancel the database reads of a request whose client has disconnected."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Condition
from typing import Any, Final, TypeVar

Item = TypeVar("Item")

INTERRUPT_S: Final = 2.0
"""How long PostgreSQL may take to accept that a query is cancelled."""
REPEATS_S: Final = (0.05, 0.25, 1.0)
"""The waits between interrupts: one that comes before its query has begun ends nothing."""


class Cancelled(Exception):
    """The read was cancelled, because nobody waits for its result."""


class Cancellation:
    """Whether a result is still needed; `cancel` ends the queries that compute it. Thread-safe."""

    def __init__(self) -> None:
        self._is_cancelled = False
        self._connections: list[Any] = []
        self._changing = Condition()

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._is_cancelled

    def cancel(self) -> None:
        """End the running queries; later ones raise Cancelled. Waits for their end, up to 1.3 s."""
        with self._changing:  # a connection in the list is not back in the pool
            self._is_cancelled = True
            for repeat_s in REPEATS_S:
                for connection in self._connections:
                    _interrupt(connection)
                if self._changing.wait_for(lambda: not self._connections, repeat_s):
                    return

    def check(self) -> None:
        """Raise Cancelled if nobody waits for the result."""
        if self._is_cancelled:
            raise Cancelled

    @contextmanager
    def watch(self, connection: Any) -> Iterator[None]:
        """Let `cancel` end the queries of a connection of the driver. Raises Cancelled."""
        with self._changing:
            self.check()
            self._connections.append(connection)
        try:
            yield
        finally:
            with self._changing:
                self._connections.remove(connection)
                self._changing.notify_all()


current: Final[ContextVar[Cancellation | None]] = ContextVar("cancellation", default=None)
"""The cancellation of the request that this thread or task works for."""


def check() -> None:
    """Raise Cancelled if the current request is cancelled; for loops that take long."""
    cancellation = current.get()
    if cancellation is not None:
        cancellation.check()


def checked(items: Iterable[Item]) -> Iterator[Item]:
    """The items; raises Cancelled between two of them if the current request is cancelled."""
    for item in items:
        check()
        yield item


def _interrupt(connection: Any) -> None:
    """End the query of a connection, from another thread."""
    if hasattr(connection, "interrupt"):  # SQLite
        connection.interrupt()
    else:
        connection.cancel_safe(timeout=INTERRUPT_S)

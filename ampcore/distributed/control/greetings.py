"""Rank 0 accepts the other ranks' connections: each greets with its number and a secret token.

Anyone who reaches the port can connect. So all greetings are read at the same time, each has ten
seconds, and connections without the token are closed.
"""

import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection
from typing import Final

from ampcore.distributed.control.messages import PeerConnection

GREETING_S: Final = 10.0
"""How long a connection may take to greet: a rank of a busy machine needs seconds."""
MAX_GREETINGS: Final = 256
"""Connections that may be greeting at the same time; later ones wait for one of them to end."""
MAX_GREETING_BYTES: Final = 1024


def greet(connection: PeerConnection, rank: int, token: bytes) -> None:
    """Introduce this rank to rank 0. Raises OSError."""
    connection.send({"rank": rank, "token": token.hex()})


class Greetings:
    """Waits for every other rank.

    Args:
        listener: Rank 0's listening socket.
        size: The number of ranks.
        token: What each of them must know.
        silence_limit_s: The timeout of accepted connections.
        on_accepted: Called with the connection of each rank that has greeted.
    """

    def __init__(
        self,
        listener: socket.socket,
        size: int,
        token: bytes,
        silence_limit_s: float,
        on_accepted: Callable[[PeerConnection], None] = lambda _: None,
    ) -> None:
        self._listener, self._size, self._token = listener, size, token
        self._silence_limit_s, self._on_accepted = silence_limit_s, on_accepted
        self._changed = threading.Condition()
        self._accepted: dict[int, PeerConnection] = {}
        self._is_over = False
        self._places = threading.BoundedSemaphore(MAX_GREETINGS)

    def wait(self, timeout_s: float) -> dict[int, PeerConnection]:
        """The connections by rank; those of the ranks that came, if others did not in time."""
        deadline = time.monotonic() + timeout_s
        accepting = threading.Thread(target=self._accept_all, args=[deadline], daemon=True)
        accepting.start()
        with self._changed:
            self._changed.wait_for(self._is_complete, timeout_s)
            self._is_over = True
            connections = dict(self._accepted)
        accepting.join()
        return connections

    def missing(self) -> Collection[int]:
        """The ranks that have not come."""
        return [rank for rank in range(1, self._size) if rank not in self._accepted]

    def _is_complete(self) -> bool:
        return len(self._accepted) == self._size - 1

    def _accept_all(self, deadline: float) -> None:
        self._listener.settimeout(0.1)
        while not self._is_over and time.monotonic() < deadline:
            try:
                accepted, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:  # the peer is gone already, or this process has too many open files
                time.sleep(0.1)
                continue
            while not self._places.acquire(timeout=0.1):
                if self._is_over:
                    accepted.close()
                    return
            threading.Thread(target=self._read, args=[accepted], daemon=True).start()

    def _read(self, accepted: socket.socket) -> None:
        # The timer also ends a greeting that arrives byte by byte.
        connection = PeerConnection(accepted, GREETING_S)
        timer = threading.Timer(GREETING_S, connection.abort)
        timer.start()
        try:
            rank = self._rank_of(connection)
        finally:
            timer.cancel()
            self._places.release()
        if rank is None or not self._add(rank, connection, accepted):
            connection.release()

    def _add(self, rank: int, connection: PeerConnection, accepted: socket.socket) -> bool:
        with self._changed:
            if self._is_over or not 0 < rank < self._size or rank in self._accepted:
                return False
            accepted.settimeout(self._silence_limit_s)
            self._on_accepted(connection)
            self._accepted[rank] = connection
            self._changed.notify_all()
            return True

    def _rank_of(self, connection: PeerConnection) -> int | None:
        try:
            message = connection.receive(MAX_GREETING_BYTES) or {}
            rank, token = message["rank"], bytes.fromhex(message["token"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        is_known = secrets.compare_digest(token, self._token)
        return rank if is_known and type(rank) is int else None

"""A TCP proxy that can close connections, block them, and drop the response to one message."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

CHUNK_BYTES = 1 << 16


class Proxy:
    """Listens on its own port and forwards bytes to and from the server that `connect` reaches."""

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._open = True
        self._flowing = threading.Event()
        self._flowing.set()
        self._drop_answer_to: bytes | None = None
        self.answer_dropped = threading.Event()
        """Set once a response was dropped."""
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close every connection, and refuse new ones."""
        self._open = False
        self._end_all()

    def block(self) -> None:
        """Keep connections open but forward nothing, as a network that drops packets."""
        self._flowing.clear()

    def restore(self) -> None:
        """Accept connections and forward again, including blocked bytes."""
        self._drop_answer_to = None
        self._open = True
        self._flowing.set()

    def drop_answer_to(self, message: bytes) -> None:
        """Deliver the next message that contains these bytes, then close its connection."""
        self.answer_dropped.clear()
        self._drop_answer_to = message

    def close(self) -> None:
        """Close the listener and every connection."""
        self._flowing.set()
        self._listener.close()
        self._end_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = self._connect() if self._open else None
            except OSError:
                server = None
            if server is None:
                client.close()
                continue
            self._forward(client, server)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        pair = (client, server)
        with self._lock:
            self._pairs.add(pair)
        for source, target, is_request in ((client, server, True), (server, client, False)):
            threading.Thread(
                target=self._pump, args=[pair, source, target, is_request], daemon=True
            ).start()

    def _pump(
        self,
        pair: tuple[socket.socket, socket.socket],
        source: socket.socket,
        target: socket.socket,
        is_request: bool,
    ) -> None:
        with suppress(OSError):
            while chunk := source.recv(CHUNK_BYTES):
                self._flowing.wait()
                if is_request and self._drops_answer_to(chunk):
                    with suppress(OSError):
                        source.shutdown(socket.SHUT_RDWR)  # before the response can be forwarded
                    target.sendall(chunk)
                    self.answer_dropped.set()
                    with suppress(OSError):  # the response may have ended the pair by now
                        target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(chunk)
        self._end(pair)

    def _drops_answer_to(self, chunk: bytes) -> bool:
        with self._lock:
            if self._drop_answer_to is None or self._drop_answer_to not in chunk:
                return False
            self._drop_answer_to = None
            return True

    def _end_all(self) -> None:
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._end(pair)

    def _end(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            self._pairs.discard(pair)
        for end in pair:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

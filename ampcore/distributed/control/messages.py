"""Messages between two ranks over TCP: JSON objects, each after its length in four bytes."""

import json
import socket
import struct
import threading
from contextlib import suppress
from typing import Any, Final

MAX_BYTES: Final = 2**28
"""The largest message."""

_LENGTH: Final = struct.Struct("!I")


class PeerConnection:
    """A connection to another rank. One thread receives; several may send."""

    def __init__(self, sock: socket.socket, timeout_s: float) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(timeout_s)
        self._socket = sock
        self._sending = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Raises OSError; TimeoutError if the other side reads nothing."""
        data = json.dumps(message).encode()
        if len(data) > MAX_BYTES:
            raise ValueError(f"message: expected at most {MAX_BYTES} bytes; received {len(data)}.")
        with self._sending:
            self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self, max_bytes: int = MAX_BYTES) -> dict[str, Any] | None:
        """The next message, of at most `max_bytes`; None when the other side has closed.

        Raises:
            OSError: The connection is broken; TimeoutError if nothing arrived in time.
            ValueError: What arrived is no message.
        """
        head = self._read(_LENGTH.size)
        if head is None:
            return None
        (size,) = _LENGTH.unpack(head)
        if size > max_bytes:
            raise ValueError(f"message: expected at most {max_bytes} bytes; received {size}.")
        data = self._read(size)
        if data is None:
            return None
        message = json.loads(data)
        if not isinstance(message, dict):
            raise ValueError(f"message: expected an object; received {type(message).__name__}.")
        return message

    def close(self) -> None:
        """Send nothing more; the other side still receives what was sent before."""
        with suppress(OSError):  # the other side may have closed it already
            self._socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """End a call of `receive` in another thread."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Close the socket, once nothing more is received."""
        self._socket.close()

    def _read(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(size - len(parts), 2**20))
            if not part:
                return None
            parts += part
        return bytes(parts)

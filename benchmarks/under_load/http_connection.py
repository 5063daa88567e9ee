"""A minimal HTTP/1.1 client, so that a benchmark measures the server and not the client."""

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

READ_BYTES = 1 << 16
DEADLINE_S = 60.0
CHUNKED = b"\r\ntransfer-encoding: chunked"


class Connection:
    """A keep-alive connection; one request at a time."""

    def __init__(self, url: str, token: str) -> None:
        address = urlsplit(url)
        assert address.hostname is not None
        self._socket = socket.create_connection((address.hostname, address.port), DEADLINE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._always = f"Host: {address.netloc}\r\nAuthorization: Bearer {token}\r\n"
        self._left = b""

    def request(self, method: str, path: str, body: Any = None, headers: str = "") -> bytes:
        """Send a request; returns the body of a response below 400. `headers` end in CRLF."""
        payload = b"" if body is None else json.dumps(body).encode()
        kind = "" if body is None else "Content-Type: application/json\r\n"
        length = "" if method == "GET" else f"Content-Length: {len(payload)}\r\n"
        head = f"{method} {path} HTTP/1.1\r\n{self._always}{kind}{length}{headers}\r\n"
        self._socket.sendall(head.encode() + payload)
        return self._answer()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _answer(self) -> bytes:
        head = self._until(b"\r\n\r\n").lower()
        status = int(head[9:12])
        if CHUNKED in head:
            body = b"".join(self._chunks())
        else:
            body = self._next(0 if status in (204, 304) else _length(head))
        if status >= 400:
            raise RuntimeError(f"{status}: {body[:300]!r}")
        return body

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._until(b"\r\n"), 16):
            yield self._next(size)
            self._until(b"\r\n")
        self._until(b"\r\n")

    def _until(self, mark: bytes) -> bytes:
        while (end := self._left.find(mark)) < 0:
            self._receive()
        found, self._left = self._left[:end], self._left[end + len(mark) :]
        return found

    def _next(self, size: int) -> bytes:
        while len(self._left) < size:
            self._receive()
        found, self._left = self._left[:size], self._left[size:]
        return found

    def _receive(self) -> None:
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._left += data


def _length(head: bytes) -> int:
    before, name, after = head.partition(b"\r\ncontent-length:")
    if not name:
        raise RuntimeError(f"a response without a length: {before[:300]!r}")
    return int(after.partition(b"\r\n")[0])

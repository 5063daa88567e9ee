"""Size limits of request headers and bodies."""

import re
from typing import Final

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import HeadersTooLarge, PayloadTooLarge
from server.http.problem_responses import problem_response

MAX_BODY_BYTES: Final = 256 * 1024
DRAIN_BYTES: Final = 8 * 2**20
DRAIN_S: Final = 2.0
"""How much of a refused body is still read, so that a sending client sees the response."""


MAX_HEADER_BYTES: Final = 32 * 1024
MAX_HEADERS: Final = 100


UPLOADS: Final = (
    ("PATCH", re.compile(r"/api/v1/datasets/[^/]+/uploads/[^/]+")),
    ("PUT", re.compile(r"/api/v1/datasets/[^/]+")),
    ("PUT", re.compile(r"/api/v1/files/[^/]+/[^/]+")),
    ("PUT", re.compile(r"/api/v1/runs/[^/]+/images/[^/]+")),
)
"""Requests whose body may be of any size. Their routes limit it, and never keep it in memory."""


def is_upload(method: str, path: str) -> bool:
    """Whether the body of the request is a file."""
    return any(
        method == upload_method and pattern.fullmatch(path) for upload_method, pattern in UPLOADS
    )


class HeaderLimit:
    """ASGI middleware: 431 for headers over MAX_HEADER_BYTES, or more than MAX_HEADERS of them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        headers = scope.get("headers", ())
        size = sum(len(name) + len(value) for name, value in headers)
        if scope["type"] == "http" and (size > MAX_HEADER_BYTES or len(headers) > MAX_HEADERS):
            message = (
                f"Expected at most {MAX_HEADERS} headers with {MAX_HEADER_BYTES} bytes in total."
            )
            await problem_response(HeadersTooLarge(message))(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class BodyLimit:
    """ASGI middleware: 413 for a body over MAX_BODY_BYTES; a shorter one is read completely.

    The routes of uploads read the body themselves.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, then pass it to the application in one message."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = _Body(receive)
        if is_upload(scope.get("method", ""), scope.get("path", "")):
            await self.app(scope, body.receive, send)
            await body.drain()  # of a refused one; else it has ended already
            return
        whole = await body.read() if _declared(scope) <= MAX_BODY_BYTES else None
        if body.broke_off:
            return  # the client is gone: no response, and half a request is not executed
        if whole is None:
            await body.drain()
            error = PayloadTooLarge(f"Expected a body of at most {MAX_BODY_BYTES} bytes.")
            await problem_response(error)(scope, receive, send)
        else:
            await self.app(scope, _Replay(whole, receive), send)


class _Body:
    """A request body while it arrives."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = False
        self.broke_off = False
        """Whether the client disconnected before the end."""

    async def read(self) -> bytes | None:
        """The body, up to its end or the client's disconnect; None if it is too long."""
        pieces: list[bytes] = []
        size = 0
        while not self._ended:
            pieces.append(await self._piece())
            size += len(pieces[-1])
            if size > MAX_BODY_BYTES:
                return None
        return b"".join(pieces)

    async def receive(self) -> Message:
        """The next message of the client."""
        message = await self._receive()
        if not self._ended:
            self.broke_off = message["type"] != "http.request"
            self._ended = self.broke_off or not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Read and discard the rest, up to a limit."""
        size = 0
        with anyio.move_on_after(DRAIN_S):
            while not self._ended and size <= DRAIN_BYTES:
                size += len(await self._piece())

    async def _piece(self) -> bytes:
        message = await self.receive()
        piece: bytes = message.get("body", b"")
        return piece


class _Replay:
    """A `receive` that returns the body that was read, then further messages of the client."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._message: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive

    async def __call__(self) -> Message:
        message, self._message = self._message, None
        return message if message is not None else await self._receive()


def _declared(scope: Scope) -> int:
    length = Headers(scope=scope).get("content-length", "0")
    return int(length) if length.isdecimal() else 0

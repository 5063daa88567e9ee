"""Answers that stay open for long: how many there may be, and how they end with the server."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Final

import anyio
import anyio.to_thread
from anyio import CancelScope, CapacityLimiter
from starlette.responses import StreamingResponse
from starlette.types import Send

from server.errors import Unavailable

MOST: Final = 500
READERS: Final = 2
"""Threads that look for news in the database, for all streams together."""
LOADERS: Final = 4
"""Threads that read files, for all downloads together."""
CUT_S: Final = 2.0
"""How long a client may still take what it was sent before the server stopped."""


class Streams:
    """What all streams of an application share."""

    def __init__(self) -> None:
        self.ending = asyncio.Event()
        """Set when the server begins to stop: every stream ends by itself then."""
        self.readers = CapacityLimiter(READERS)
        self.loaders = CapacityLimiter(LOADERS)
        self._open = 0

    def refuse_if_full(self) -> None:
        """Raises Unavailable when there are as many streams as a server keeps open."""
        if self._open >= MOST:
            raise Unavailable(f"This server keeps {MOST} streams open and no more; try again soon.")

    @contextmanager
    def one(self) -> Iterator[None]:
        """Counts a stream while it is open."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


class LongResponse(StreamingResponse):
    """A response whose generator is closed whatever happens, and that no reader keeps open."""

    def __init__(
        self, streams: Streams, pieces: AsyncGenerator[bytes, None], *args: Any, **options: Any
    ) -> None:
        super().__init__(pieces, *args, **options)
        self._streams = streams
        self._pieces = pieces

    async def stream_response(self, send: Send) -> None:
        """Send piece after piece, each once the client has taken the one before."""
        with self._streams.one():
            async with aclosing(self._pieces), anyio.create_task_group() as group:
                group.start_soon(self._cut, group.cancel_scope)
                await super().stream_response(send)
                group.cancel_scope.cancel()

    async def _cut(self, scope: CancelScope) -> None:
        """A client that takes nothing must not hold up the end of the server."""
        await self._streams.ending.wait()
        await anyio.sleep(CUT_S)
        scope.cancel()


async def loaded(streams: Streams, pieces: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    """What threads read, piece by piece; the file behind it is closed at the end."""
    try:
        while piece := await anyio.to_thread.run_sync(next, pieces, b"", limiter=streams.loaders):
            yield piece
    finally:
        if close := getattr(pieces, "close", None):
            close()

"""Answers that stay open for long, and how they end with the server."""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any, Final

import anyio
import anyio.to_thread
from anyio import CancelScope, CapacityLimiter
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from server.streaming.bells import Bells
from server.streaming.shares import FILES, STREAMS, OpenAnswers, Owner

log = logging.getLogger(__name__)

READERS: Final = 2
"""Threads that look for news in the database, for all streams together."""
LOADERS: Final = 4
"""Threads that read files, for all downloads together."""
CHECK_S: Final = 0.4
"""How often it is asked whether a client may still read what it is sent. With the time that an
answer of the database is believed (`server.access.keyring.FRESH_S`) it is less than two seconds.
"""
CUT_S: Final = 2.0
"""How long a client may still take what it was sent before the server stopped."""


class Streams:
    """What all streams of an application share."""

    def __init__(self) -> None:
        self.ending = asyncio.Event()
        """Set when the server begins to stop: every stream ends by itself then."""
        self.bells = Bells()
        self.readers = CapacityLimiter(READERS)
        self.loaders = CapacityLimiter(LOADERS)
        self.followers = OpenAnswers(STREAMS)
        self.files = OpenAnswers(FILES)

    @property
    def _open(self) -> int:
        return self.followers.count + self.files.count

    async def ring_or_end(self, bell: asyncio.Event) -> None:
        """Wait until the bell rings, or until the server begins to stop."""
        async with anyio.create_task_group() as group:

            async def wait_for(event: asyncio.Event) -> None:
                await event.wait()
                group.cancel_scope.cancel()

            group.start_soon(wait_for, bell)
            group.start_soon(wait_for, self.ending)


class LongResponse(StreamingResponse):
    """A response whose generator is closed whatever happens, and that no reader keeps open.

    Args:
        streams: What it shares with the others.
        pieces: Its body.
        among: What it counts among. It is refused when it is sent where they are too many.
        owner: Who asked for it.
        patience_s: How long a client may take no further piece before the connection is cut.
        allowed: Asks whether the client may still read it.
        stop: Ends the pieces when it may not; left out, the connection is cut.
    """

    def __init__(
        self,
        streams: Streams,
        pieces: AsyncGenerator[bytes, None],
        *args: Any,
        among: OpenAnswers,
        owner: Owner,
        allowed: Callable[[], Awaitable[bool]],
        stop: Callable[[], None] | None = None,
        patience_s: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(pieces, *args, **options)
        self._streams = streams
        self._pieces = pieces
        self._among, self._owner = among, owner
        self._patience_s = patience_s
        self._allowed, self._stop = allowed, stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. Raises TooManyOpen or Unavailable before anything is sent."""
        with self._among.one(self._owner):
            async with aclosing(self._pieces):
                await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Send piece after piece, each once the client has taken the one before."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._cut, group.cancel_scope)
            group.start_soon(self._check, group.cancel_scope)

            async def send_soon(message: Message) -> None:
                with anyio.move_on_after(self._patience_s or math.inf) as waiting:
                    await send(message)
                if waiting.cancelled_caught:
                    log.info("a client took nothing for %g s, and is cut off", self._patience_s)
                    group.cancel_scope.cancel()

            await super().stream_response(send_soon)
            group.cancel_scope.cancel()

    async def _cut(self, scope: CancelScope) -> None:
        """A client that takes nothing must not hold up the end of the server."""
        await self._streams.ending.wait()
        await anyio.sleep(CUT_S)
        scope.cancel()

    async def _check(self, scope: CancelScope) -> None:
        """Who may not read it any more gets no more of it."""
        while await self._allowed():
            await anyio.sleep(CHECK_S)
        if self._stop is not None:
            self._stop()
        else:
            scope.cancel()


async def loaded(streams: Streams, pieces: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    """What threads read, piece by piece; the file behind it is closed at the end."""
    try:
        while True:
            piece = await anyio.to_thread.run_sync(next, pieces, None, limiter=streams.loaders)
            if piece is None:
                return
            if piece:
                yield piece
    finally:
        if close := getattr(pieces, "close", None):
            close()

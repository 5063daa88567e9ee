"""Responses that stay open for long: their limits, authorization, send timeout and shutdown."""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any, Final

import anyio
from anyio import CancelScope
from fastapi import Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from server.errors import DATABASE_ERRORS, TooManyRequests
from server.http.access import credentials
from server.http.access.auth_middleware import client_network
from server.http.access.authenticator import Authenticator
from server.http.admission.fair_limiter import FairLimiter
from server.http.streaming.stream_limits import (
    DOWNLOAD_LIMIT,
    FOLLOW_LIMIT,
    WAIT_LIMIT,
    OpenStreams,
    StreamOwner,
)
from server.http.streaming.subscribe import Subscriptions
from store.database_errors import is_outage

log = logging.getLogger(__name__)

MAX_READERS: Final = 2
"""Threads that read new entries from the database, for all streams together, in turn by token."""
MAX_LOADERS: Final = 4
"""Threads that read files and encode exports, for all downloads together, in turn by token."""
AUTH_CHECK_S: Final = 0.4
"""How often a stream checks that its client is still authorized. Together with the lifetime of a
cached principal (`server.http.access.authenticator.CACHE_TTL_S`), streams end within two seconds of
a revocation.
"""
SHUTDOWN_GRACE_S: Final = 2.0
"""How long a client may still read what was sent before the server began to stop."""
STREAMING_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx must not buffer it
    "X-Content-Type-Options": "nosniff",  # a log is never rendered as a page
}
SEND_TIMEOUT_S: Final = 60.0
"""A client that reads nothing for this long is disconnected; it can reconnect and continue."""


class Streams:
    """Shared by all long responses of an application: limits, threads, subscriptions, shutdown."""

    def __init__(self) -> None:
        self.shutting_down = asyncio.Event()
        """Set when the server begins to stop; every stream then ends by itself."""
        self.subscriptions = Subscriptions()
        self.readers = FairLimiter(MAX_READERS, MAX_READERS, max_wait_s=math.inf)
        self.loaders = FairLimiter(MAX_LOADERS, MAX_LOADERS - 1, max_wait_s=math.inf)
        self.followers = OpenStreams(FOLLOW_LIMIT)
        self.files = OpenStreams(DOWNLOAD_LIMIT)
        self.waiting = OpenStreams(WAIT_LIMIT)

    @property
    def _open(self) -> int:
        return self.followers.count + self.files.count + self.waiting.count

    async def wait_for_update_or_shutdown(self, subscription: asyncio.Event) -> None:
        """Wait for a notification of the subscription, or until the server begins to stop."""
        async with anyio.create_task_group() as group:

            async def wait_for(event: asyncio.Event) -> None:
                await event.wait()
                group.cancel_scope.cancel()

            group.start_soon(wait_for, subscription)
            group.start_soon(wait_for, self.shutting_down)


class LongResponse(StreamingResponse):
    """A streaming response that always closes its generator, and disconnects idle clients.

    Args:
        streams: shared by all long responses of the application.
        pieces: the body.
        open_streams: the limit that it counts against; above it the response is refused.
        owner: who requested it, for that limit.
        allowed: whether the client is still authorized; checked every AUTH_CHECK_S.
        stop: ends the body when the client no longer is; without it the connection is closed.
        send_timeout_s: the connection is closed if the client reads nothing for this long.
    """

    def __init__(
        self,
        streams: Streams,
        pieces: AsyncGenerator[bytes, None],
        *args: Any,
        open_streams: OpenStreams,
        owner: StreamOwner,
        allowed: Callable[[], Awaitable[bool]],
        stop: Callable[[], None] | None = None,
        send_timeout_s: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(pieces, *args, **options)
        self._streams = streams
        self._pieces = pieces
        self._open_streams, self._owner = open_streams, owner
        self._send_timeout_s = send_timeout_s
        self._allowed, self._stop = allowed, stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. Raises TooManyOpen or Unavailable before anything is sent."""
        with self._open_streams.one(self._owner):
            async with aclosing(self._pieces):
                await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Send the body, each piece once the client has read the one before."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._cut, group.cancel_scope)
            group.start_soon(self._check, group.cancel_scope)

            async def send_soon(message: Message) -> None:
                with anyio.move_on_after(self._send_timeout_s or math.inf) as waiting:
                    await send(message)
                if waiting.cancelled_caught:
                    log.info(
                        "closing a stream: the client read nothing for %g s", self._send_timeout_s
                    )
                    group.cancel_scope.cancel()

            await super().stream_response(send_soon)
            group.cancel_scope.cancel()

    async def _cut(self, scope: CancelScope) -> None:
        """Disconnect when the server stops: a client that reads nothing must not delay that."""
        await self._streams.shutting_down.wait()
        await anyio.sleep(SHUTDOWN_GRACE_S)
        scope.cancel()

    async def _check(self, scope: CancelScope) -> None:
        """End the response when the client is no longer authorized."""
        while await self._allowed():
            await anyio.sleep(AUTH_CHECK_S)
        if self._stop is not None:
            self._stop()
        else:
            scope.cancel()


def authorization_check(
    request: Request, authenticator: Authenticator
) -> Callable[[], Awaitable[bool]]:
    """A function that returns whether the credential of the request is still valid."""

    async def allowed() -> bool:
        try:
            credential = credentials.read(request.scope)
            if authenticator.cached_principal(credential) is not None:
                return True
            return (
                await authenticator.authenticate(credential, client_network(request.scope))
                is not None
            )
        except TooManyRequests:
            return False
        except DATABASE_ERRORS as error:
            return is_outage(error)  # checked again when it is available

    return allowed


async def iterate_in_threads(
    streams: Streams, owner: StreamOwner, pieces: Iterator[bytes]
) -> AsyncGenerator[bytes, None]:
    """Iterate a blocking iterator in worker threads, and close it at the end."""
    try:
        while True:
            piece = await streams.loaders.run(owner.token_id, next, pieces, None)
            if piece is None:
                return
            if piece:
                yield piece
    finally:
        if close := getattr(pieces, "close", None):
            close()

"""The two HTTP backends: one blocks, one runs on asyncio.

The rest of the package works with either of them.
"""

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar

from ampclient.connection import Connection

if TYPE_CHECKING:
    import httpx
    from httpx_sse import ServerSentEvent

P = ParamSpec("P")
T = TypeVar("T")

CONNECTION_LIMITS: Final = {"max_connections": None, "max_keepalive_connections": 20}
"""A request that the server holds needs a connection for as long: the others must not wait for it.
"""


@dataclass(frozen=True)
class StreamedResponse:
    """A response whose content is read in chunks as it arrives."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncGenerator[bytes, None]
    events: AsyncGenerator["ServerSentEvent", None]
    """The same content as Server-Sent Events, for `text/event-stream`."""


class HttpBackend(Protocol):
    """What the transport needs: HTTP, sleeping and threads."""

    def http_request(self, method: str, url: str, **parts: Any) -> "httpx.Request":
        """Build a request, with the defaults of the HTTP client."""

    async def send(self, request: "httpx.Request", *, stream: bool = False) -> "httpx.Response":
        """Send a request; with `stream`, return before the content is read."""

    def content(self, pieces: Iterator[bytes]) -> Any:
        """The body of a request from its pieces."""

    async def read(self, response: "httpx.Response") -> bytes:
        """Read the whole content of a streamed response."""

    def chunks(self, response: "httpx.Response") -> AsyncGenerator[bytes, None]:
        """The content of a streamed response, in chunks as they arrive."""

    def events(self, response: "httpx.Response") -> AsyncGenerator["ServerSentEvent", None]:
        """The Server-Sent Events of a streamed response, as they arrive."""

    async def close_response(self, response: "httpx.Response") -> None:
        """Close a streamed response, read or not."""

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""

    async def run_in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work`, which takes CPU time, without blocking the event loop."""

    async def close(self) -> None:
        """Close the HTTP client, unless the caller passed it in."""


class SyncHttpBackend:
    """Blocking HTTP: its coroutines never suspend. It does not close an `http_client` passed in."""

    def __init__(
        self, connection: Connection, timeout_s: float, http_client: "httpx.Client | None"
    ) -> None:
        import httpx

        # A proxy from the environment cannot reach this machine's own loopback address.
        trust_env = not connection.is_loopback
        self._closes_http = http_client is None
        self._http = http_client or httpx.Client(
            timeout=timeout_s, trust_env=trust_env, limits=httpx.Limits(**CONNECTION_LIMITS)
        )

    def http_request(self, method: str, url: str, **parts: Any) -> "httpx.Request":
        """Build a request."""
        return self._http.build_request(method, url, **parts)

    async def send(self, request: "httpx.Request", *, stream: bool = False) -> "httpx.Response":
        """Send a request."""
        return self._http.send(request, stream=stream)

    def content(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The body of a request from its pieces."""
        return pieces

    async def read(self, response: "httpx.Response") -> bytes:
        """Read the whole content."""
        return response.read()

    async def chunks(self, response: "httpx.Response") -> AsyncGenerator[bytes, None]:
        """The content in chunks as they arrive."""
        for chunk in response.iter_bytes():
            yield chunk

    async def events(self, response: "httpx.Response") -> AsyncGenerator["ServerSentEvent", None]:
        """The events as they arrive."""
        from httpx_sse import EventSource

        for event in EventSource(response).iter_sse():
            yield event

    async def close_response(self, response: "httpx.Response") -> None:
        """Close the response."""
        response.close()

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        time.sleep(seconds)

    async def run_in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in this thread."""
        return work(*args, **kwargs)

    async def close(self) -> None:
        """Close the HTTP client, unless the caller passed it in."""
        if self._closes_http:
            self._http.close()


class AsyncHttpBackend:
    """HTTP on asyncio. It does not close an `http_client` passed in."""

    def __init__(
        self, connection: Connection, timeout_s: float, http_client: "httpx.AsyncClient | None"
    ) -> None:
        import httpx

        trust_env = not connection.is_loopback  # as above
        self._closes_http = http_client is None
        self._http = http_client or httpx.AsyncClient(
            timeout=timeout_s, trust_env=trust_env, limits=httpx.Limits(**CONNECTION_LIMITS)
        )

    def http_request(self, method: str, url: str, **parts: Any) -> "httpx.Request":
        """Build a request."""
        return self._http.build_request(method, url, **parts)

    async def send(self, request: "httpx.Request", *, stream: bool = False) -> "httpx.Response":
        """Send a request."""
        return await self._http.send(request, stream=stream)

    async def content(self, pieces: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
        """The body of a request from its pieces, which are read in another thread."""
        while (piece := await self.run_in_thread(next, pieces, None)) is not None:
            yield piece

    async def read(self, response: "httpx.Response") -> bytes:
        """Read the whole content."""
        return await response.aread()

    async def chunks(self, response: "httpx.Response") -> AsyncGenerator[bytes, None]:
        """The content in chunks as they arrive."""
        async for chunk in response.aiter_bytes():
            yield chunk

    async def events(self, response: "httpx.Response") -> AsyncGenerator["ServerSentEvent", None]:
        """The events as they arrive."""
        from httpx_sse import EventSource

        async with aclosing(EventSource(response).aiter_sse()) as events:
            async for event in events:
                yield event

    async def close_response(self, response: "httpx.Response") -> None:
        """Close the response."""
        await response.aclose()

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        import asyncio

        await asyncio.sleep(seconds)

    async def run_in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in another thread."""
        import asyncio

        return await asyncio.to_thread(work, *args, **kwargs)

    async def close(self) -> None:
        """Close the HTTP client, unless the caller passed it in."""
        if self._closes_http:
            await self._http.aclose()

"""The two ways to speak HTTP and to let time pass: one blocks, one leaves the event loop free.

Nothing else in this package knows which of them it works with.
"""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from ampclient.connection import Connection

if TYPE_CHECKING:
    import httpx
    from httpx_sse import ServerSentEvent

P = ParamSpec("P")
T = TypeVar("T")


class HttpBackend(Protocol):
    """What the transport needs."""

    def http_request(self, method: str, url: str, **parts: Any) -> "httpx.Request":
        """What to send, with what the HTTP client adds to every request."""

    async def send(self, request: "httpx.Request", *, stream: bool = False) -> "httpx.Response":
        """The answer, without its content if that is to come as a `stream`."""

    async def read(self, response: "httpx.Response") -> bytes:
        """The content of a streamed answer in one piece."""

    def chunks(self, response: "httpx.Response") -> AsyncGenerator[bytes, None]:
        """The content of a streamed answer as it comes."""

    def events(self, response: "httpx.Response") -> AsyncGenerator["ServerSentEvent", None]:
        """The Server-Sent Events of a streamed answer as they come."""

    async def close_response(self, response: "httpx.Response") -> None:
        """Take no more of a streamed answer."""

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""

    async def run_in_thread(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """What `work` returns, which computes for a while."""

    async def close(self) -> None:
        """Close the connections that are kept open, unless somebody else opened them."""


class SyncHttpBackend:
    """Blocks: its coroutines never pause. An `http_client` handed in is its owner's to close."""

    def __init__(
        self, connection: Connection, timeout_s: float, http_client: "httpx.Client | None"
    ) -> None:
        import httpx

        # A proxy from the environment cannot reach this machine's own loopback address.
        trust_env = not connection.is_loopback
        self._owned = http_client is None
        self._http = http_client or httpx.Client(timeout=timeout_s, trust_env=trust_env)

    def http_request(self, method: str, url: str, **parts: Any) -> "httpx.Request":
        """What to send."""
        return self._http.build_request(method, url, **parts)

    async def send(self, request: "httpx.Request", *, stream: bool = False) -> "httpx.Response":
        """The answer."""
        return self._http.send(request, stream=stream)

    async def read(self, response: "httpx.Response") -> bytes:
        """The content in one piece."""
        return response.read()

    async def chunks(self, response: "httpx.Response") -> AsyncGenerator[bytes, None]:
        """The content as it comes."""
        for chunk in response.iter_bytes():
            yield chunk

    async def events(self, response: "httpx.Response") -> AsyncGenerator["ServerSentEvent", None]:
        """The events as they come."""
        from httpx_sse import EventSource

        for event in EventSource(response).iter_sse():
            yield event

    async def close_response(self, response: "httpx.Response") -> None:
        """Take no more of it."""
        response.close()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    async def run_in_thread(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """What `work` returns."""
        return work(*args, **named)

    async def close(self) -> None:
        """Close the connections."""
        if self._owned:
            self._http.close()


class AsyncHttpBackend:
    """Leaves the event loop free. An `http_client` that is handed in is its owner's to close."""

    def __init__(
        self, connection: Connection, timeout_s: float, http_client: "httpx.AsyncClient | None"
    ) -> None:
        import httpx

        trust_env = not connection.is_loopback  # as above
        self._owned = http_client is None
        self._http = http_client or httpx.AsyncClient(timeout=timeout_s, trust_env=trust_env)

    def http_request(self, method: str, url: str, **parts: Any) -> "httpx.Request":
        """What to send."""
        return self._http.build_request(method, url, **parts)

    async def send(self, request: "httpx.Request", *, stream: bool = False) -> "httpx.Response":
        """The answer."""
        return await self._http.send(request, stream=stream)

    async def read(self, response: "httpx.Response") -> bytes:
        """The content in one piece."""
        return await response.aread()

    async def chunks(self, response: "httpx.Response") -> AsyncGenerator[bytes, None]:
        """The content as it comes."""
        async for chunk in response.aiter_bytes():
            yield chunk

    async def events(self, response: "httpx.Response") -> AsyncGenerator["ServerSentEvent", None]:
        """The events as they come."""
        from httpx_sse import EventSource

        async with aclosing(EventSource(response).aiter_sse()) as events:
            async for event in events:
                yield event

    async def close_response(self, response: "httpx.Response") -> None:
        """Take no more of it."""
        await response.aclose()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        import asyncio

        await asyncio.sleep(seconds)

    async def run_in_thread(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """What `work` returns, in a thread."""
        import asyncio

        return await asyncio.to_thread(work, *args, **named)

    async def close(self) -> None:
        """Close the connections."""
        if self._owned:
            await self._http.aclose()

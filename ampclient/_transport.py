"""Sends all requests: retries where that is safe and maps failures to errors; sync or async."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ampclient._http_backend import HttpBackend
from ampclient._raw_response import recorded_responses
from ampclient._request_options import RequestOptions
from ampclient._responses import parse_response, raise_for_status
from ampclient.connection import Connection
from ampclient.errors import ConnectionFailed, StatusError
from ampclient.etags import EtagCache
from ampclient.requests import JsonRequest, Request
from ampclient.retry import RETRY_TIMEOUT_S, RetryState
from ampspec import __version__

if TYPE_CHECKING:
    import httpx
    from httpx_sse import ServerSentEvent

T = TypeVar("T")
NOT_MODIFIED = 304


@dataclass(frozen=True)
class StreamedResponse:
    """A response whose content is read in chunks as it arrives."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncGenerator[bytes, None]
    events: AsyncGenerator["ServerSentEvent", None]
    """The same content as Server-Sent Events, for `text/event-stream`."""


class Transport:
    """A connection to one server."""

    def __init__(self, connection: Connection, backend: HttpBackend) -> None:
        self.connection = connection
        self.sleep = backend.sleep
        self.run_in_thread = backend.run_in_thread
        self.close = backend.close
        self._backend = backend
        self._etag_cache = EtagCache()

    async def send(
        self,
        request: JsonRequest[T],
        *,
        retry_timeout_s: float = RETRY_TIMEOUT_S,
        **options: Unpack[RequestOptions],
    ) -> T:
        """The response to `request`, retried for about `retry_timeout_s` where that is safe."""
        retries = RetryState(request, retry_timeout_s)
        while True:
            try:
                return await self._send_once(request, options)
            except (ConnectionFailed, StatusError) as error:
                next_delay_s = retries.next_delay_s(error)
            await self.sleep(next_delay_s)

    async def send_content(
        self,
        request: JsonRequest[T],
        pieces: Iterator[bytes],
        **options: Unpack[RequestOptions],
    ) -> T:
        """The response to `request` with these pieces as its body; sent once, without retries."""
        content = self._backend.content(pieces)
        http_request = self._build_request(request, options, content=content)
        with self._connection_errors(request):
            response = await self._backend.send(http_request)
        return parse_response(request, response.status_code, response.headers, response.content)

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[StreamedResponse]:
        """The response as a stream; the request is sent once, without retries.

        Raises StatusError, and ConnectionFailed also while the content is read.
        """
        with self._connection_errors(request):
            response = await self._backend.send(self._build_request(request), stream=True)
            try:
                status, headers = response.status_code, response.headers
                if status >= 300:
                    content = await self._backend.read(response)
                    raise_for_status(request, status, headers, content)
                async with (
                    aclosing(self._backend.chunks(response)) as chunks,
                    aclosing(self._backend.events(response)) as events,
                ):
                    yield StreamedResponse(status, headers, chunks, events)
            finally:
                await self._backend.close_response(response)

    async def _send_once(self, request: JsonRequest[T], options: RequestOptions) -> T:
        recorded = recorded_responses.get()
        # A raw response must have its content, so no 304.
        cached = self._etag_cache.get(request) if recorded is None else None
        http_request = self._build_request(request, options)
        if cached is not None:
            http_request.headers["If-None-Match"] = cached.etag
        with self._connection_errors(request):
            response = await self._backend.send(http_request)
        if cached is not None and response.status_code == NOT_MODIFIED:
            unchanged: T = cached.value
            return unchanged
        if recorded is not None:
            recorded.append(response)
        parsed = parse_response(request, response.status_code, response.headers, response.content)
        self._etag_cache.store(request, response.headers.get("etag"), parsed)
        return parsed

    def _build_request(
        self, request: Request, options: RequestOptions | None = None, *, content: Any = None
    ) -> "httpx.Request":
        import httpx

        options = options or {}
        timeout_s = options.get("timeout")
        headers = httpx.Headers(options.get("headers"))
        headers["Authorization"] = f"Bearer {self.connection.token}"
        headers["Accept"] = "application/json"
        headers["User-Agent"] = f"ampclient/{__version__}"
        headers.update(dict(request.headers))
        if request.body is not None:
            headers["Content-Type"], content = "application/json", encode_json(request.body)
        url = f"{self.connection.url}{request.url_path}"
        return self._backend.http_request(
            request.method,
            url,
            params=list(request.params),
            content=content,
            headers=headers,
            **({} if timeout_s is None else {"timeout": timeout_s}),
        )

    @contextmanager
    def _connection_errors(self, request: Request) -> Iterator[None]:
        """Raise ConnectionFailed for the errors of httpx."""
        import httpx

        try:
            yield
        except httpx.RequestError as error:
            unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
            raise ConnectionFailed(
                f"Cannot connect to {self.connection.url}: {error or type(error).__name__}.",
                sent=not isinstance(error, unsent),
                idempotency_key=request.idempotency_key,
            ) from error


def encode_json(body: Any) -> bytes:
    """A body as JSON; non-finite numbers become strings, so that the server can report them."""
    try:
        return json.dumps(body, allow_nan=False).encode()
    except ValueError:
        from ampspec.telemetry.json_values import json_safe

        return json.dumps(json_safe(body), allow_nan=False).encode()

"""Sends all requests: retries where that is safe and maps failures to errors; sync or async."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ampclient._endpoints import JsonRequest, Request
from ampclient._http.backend import HttpBackend, StreamedResponse
from ampclient._http.etags import EtagCache
from ampclient._http.options import ClientOptions, RequestOptions, checked_options
from ampclient._http.raw_response import record_response, recorded_responses
from ampclient._http.responses import parse_response, raise_for_status
from ampclient._http.retry import RETRY_TIMEOUT_S, RetryState
from ampclient._http.trace_headers import trace_headers
from ampclient.connection import Connection
from ampclient.errors import ConnectionFailed, StatusError
from ampspec import __version__

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
NOT_MODIFIED = 304


class Transport:
    """A connection to one server."""

    def __init__(
        self, connection: Connection, backend: HttpBackend, options: ClientOptions | None = None
    ) -> None:
        self.connection = connection
        self.options = options or ClientOptions()
        self.sleep = backend.sleep
        self.run_in_thread = backend.run_in_thread
        self.close = backend.close
        self._backend = backend
        self._etag_cache = EtagCache()

    def with_options(self, options: ClientOptions) -> "Transport":
        """The same connections with other options."""
        return Transport(self.connection, self._backend, options)

    def retries(
        self, request: Request, retry_timeout_s: float, max_retries: int | None = None
    ) -> RetryState:
        """Says when to send a request again; `max_retries` None: the limit of the client."""
        allowed = self.options.max_retries if max_retries is None else max_retries
        return RetryState(request, retry_timeout_s, allowed)

    async def send(
        self,
        request: JsonRequest[T],
        *,
        retry_timeout_s: float = RETRY_TIMEOUT_S,
        etag_cache: EtagCache | None = None,
        **options: Unpack[RequestOptions],
    ) -> T:
        """The response to `request`, retried for about `retry_timeout_s` where that is safe.

        With `etag_cache`, it is compared with the last response in there, not with the client's.
        """
        options = checked_options(options)
        etag_cache = self._etag_cache if etag_cache is None else etag_cache
        retries = self.retries(request, retry_timeout_s, options.get("max_retries"))
        while True:
            try:
                return await self._send_once(request, options, etag_cache)
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
        record_response(response)
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
                record_response(response)
                async with (
                    aclosing(self._backend.chunks(response)) as chunks,
                    aclosing(self._backend.events(response)) as events,
                ):
                    yield StreamedResponse(status, headers, chunks, events)
            finally:
                await self._backend.close_response(response)

    async def _send_once(
        self, request: JsonRequest[T], options: RequestOptions, etag_cache: EtagCache
    ) -> T:
        # A raw response must have its content, so no 304.
        cached = etag_cache.get(request) if recorded_responses.get() is None else None
        http_request = self._build_request(request, options)
        if cached is not None:
            http_request.headers["If-None-Match"] = cached.etag
        with self._connection_errors(request):
            response = await self._backend.send(http_request)
        if cached is not None and response.status_code == NOT_MODIFIED:
            unchanged: T = cached.value
            return unchanged
        record_response(response)
        parsed = parse_response(request, response.status_code, response.headers, response.content)
        etag_cache.store(request, response.headers.get("etag"), parsed)
        return parsed

    def _build_request(
        self, request: Request, options: RequestOptions | None = None, *, content: Any = None
    ) -> "httpx.Request":
        import httpx

        options = options or {}
        timeout_s = options.get("timeout_s")
        if timeout_s is None:
            timeout_s = self.options.timeout_s
        headers = httpx.Headers(self.options.default_headers)
        headers.update(options.get("headers"))
        headers["Authorization"] = f"Bearer {self.connection.token}"
        headers["Accept"] = "application/json"
        headers["User-Agent"] = f"ampclient/{__version__}"
        headers.update(trace_headers())
        headers.update(dict(request.headers))
        if request.body is not None:
            headers["Content-Type"], content = "application/json", encode_json(request.body)
        url = f"{self.connection.url}{request.url_path}"
        http_request = self._backend.http_request(
            request.method,
            url,
            params=list(request.params),
            content=content,
            headers=headers,
            **({} if timeout_s is None else {"timeout": timeout_s}),
        )
        timeouts_s = http_request.extensions["timeout"]
        if timeouts_s["read"] is not None:
            timeouts_s["read"] += request.wait_s
        return http_request

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

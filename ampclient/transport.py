"""The one place that speaks HTTP: sends requests, tries again when it may, maps failures."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ampclient.answers import raise_for_status, read_answer
from ampclient.calls import Call, Request
from ampclient.connection import Connection
from ampclient.errors import ConnectionFailed, StatusError
from ampclient.etags import LastAnswers
from ampclient.retry import PATIENCE_S, Attempts
from ampcore import __version__

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
NOT_MODIFIED = 304


class Transport:
    """A connection to one server. An `http_client` that is handed in stays its owner's to close."""

    def __init__(
        self,
        connection: Connection,
        *,
        timeout_s: float = 30.0,
        http_client: "httpx.Client | None" = None,
    ) -> None:
        self.connection = connection
        self._owns_http = http_client is None
        self._http = http_client or _new_http_client(connection, timeout_s)
        self._last_answers = LastAnswers()

    def send(self, call: Call[T], *, patience_s: float = PATIENCE_S) -> T:
        """The answer to `call`, tried again for at most about `patience_s` where that is safe."""
        attempts = Attempts(call, patience_s)
        while True:
            try:
                return self._send_once(call)
            except (ConnectionFailed, StatusError) as error:
                delay_s = attempts.delay_s(error)
            time.sleep(delay_s)

    @contextmanager
    def open(self, request: Request) -> "Iterator[httpx.Response]":
        """The answer as it comes in; it is asked for once.

        Raises StatusError, and ConnectionFailed also while the answer is read.
        """
        with self._connected(request):
            message = self._message(request)
            response = self._http.send(message, stream=True)
            try:
                if response.status_code >= 300:
                    content = response.read()
                    raise_for_status(request, response.status_code, response.headers, content)
                yield response
            finally:
                response.close()

    def close(self) -> None:
        """Close the connections that are kept open."""
        if self._owns_http:
            self._http.close()

    def _send_once(self, call: Call[T]) -> T:
        known = self._last_answers.get(call)
        message = self._message(call)
        if known is not None:
            message.headers["If-None-Match"] = known.etag
        with self._connected(call):
            response = self._http.send(message)
        if known is not None and response.status_code == NOT_MODIFIED:
            unchanged: T = known.value
            return unchanged
        answer = read_answer(call, response.status_code, response.headers, response.content)
        self._last_answers.keep(call, response.headers.get("etag"), answer)
        return answer

    def _message(self, request: Request) -> "httpx.Request":
        headers = {
            "Authorization": f"Bearer {self.connection.token}",
            "Accept": "application/json",
            "User-Agent": f"ampclient/{__version__}",
            **dict(request.headers),
        }
        content = None
        if request.body is not None:
            headers["Content-Type"], content = "application/json", encode(request.body)
        url = f"{self.connection.url}{request.url_path}"
        return self._http.build_request(
            request.method, url, params=list(request.params), content=content, headers=headers
        )

    @contextmanager
    def _connected(self, request: Request) -> Iterator[None]:
        """What httpx raises, as ConnectionFailed."""
        import httpx

        try:
            yield
        except httpx.RequestError as error:
            unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
            raise ConnectionFailed(
                f"No answer from {self.connection.url}: {error or type(error).__name__}.",
                sent=not isinstance(error, unsent),
                idempotency_key=request.idempotency_key,
            ) from error


def encode(body: Any) -> bytes:
    """A body as JSON; a non-finite number is named, so that the server can say what is wrong."""
    try:
        return json.dumps(body, allow_nan=False).encode()
    except ValueError:
        from ampcore.series.jsonable import finite_json

        return json.dumps(finite_json(body), allow_nan=False).encode()


def _new_http_client(connection: Connection, timeout_s: float) -> "httpx.Client":
    import httpx

    # A proxy from the environment cannot reach this machine's own loopback address.
    return httpx.Client(timeout=timeout_s, trust_env=not connection.is_loopback)

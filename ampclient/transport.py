"""The one place that sends requests: tries again when it may, maps failures; on either wire."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ampclient.answers import raise_for_status, read_answer
from ampclient.calls import Call, Request
from ampclient.connection import Connection
from ampclient.errors import ConnectionFailed, StatusError
from ampclient.etags import LastAnswers
from ampclient.retry import PATIENCE_S, Attempts
from ampclient.wire import Wire
from ampcore import __version__

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
NOT_MODIFIED = 304


@dataclass(frozen=True)
class Answer:
    """An answer whose content still comes, piece by piece."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncGenerator[bytes, None]


class Transport:
    """A connection to one server."""

    def __init__(self, connection: Connection, wire: Wire) -> None:
        self.connection = connection
        self.sleep = wire.sleep
        self.aside = wire.aside
        self.close = wire.close
        self._wire = wire
        self._last_answers = LastAnswers()

    async def send(self, call: Call[T], *, patience_s: float = PATIENCE_S) -> T:
        """The answer to `call`, tried again for at most about `patience_s` where that is safe."""
        attempts = Attempts(call, patience_s)
        while True:
            try:
                return await self._send_once(call)
            except (ConnectionFailed, StatusError) as error:
                delay_s = attempts.delay_s(error)
            await self.sleep(delay_s)

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Answer]:
        """The answer as it comes in; it is asked for once.

        Raises StatusError, and ConnectionFailed also while the answer is read.
        """
        with self._connected(request):
            response = await self._wire.send(self._message(request), stream=True)
            try:
                status, headers = response.status_code, response.headers
                if status >= 300:
                    content = await self._wire.read(response)
                    raise_for_status(request, status, headers, content)
                async with aclosing(self._wire.pieces(response)) as pieces:
                    yield Answer(status, headers, pieces)
            finally:
                await self._wire.leave(response)

    async def _send_once(self, call: Call[T]) -> T:
        known = self._last_answers.get(call)
        message = self._message(call)
        if known is not None:
            message.headers["If-None-Match"] = known.etag
        with self._connected(call):
            response = await self._wire.send(message)
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
        return self._wire.message(
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

"""The one place that speaks HTTP: sends calls, tries again when it may, maps failures."""

import json
import time
from typing import TYPE_CHECKING, Any, TypeVar

from ampclient.answers import read_answer
from ampclient.calls import Call
from ampclient.connection import Connection
from ampclient.errors import ConnectionFailed, StatusError
from ampclient.retry import PATIENCE_S, Attempts
from ampcore import __version__

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


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
        self._headers = {
            "Authorization": f"Bearer {connection.token}",
            "Accept": "application/json",
            "User-Agent": f"ampclient/{__version__}",
        }

    def send(self, call: Call[T], *, patience_s: float = PATIENCE_S) -> T:
        """The answer to `call`, tried again for at most about `patience_s` where that is safe."""
        attempts = Attempts(call, patience_s)
        while True:
            try:
                return self._send_once(call)
            except (ConnectionFailed, StatusError) as error:
                delay_s = attempts.delay_s(error)
            time.sleep(delay_s)

    def close(self) -> None:
        """Close the connections that are kept open."""
        if self._owns_http:
            self._http.close()

    def _send_once(self, call: Call[T]) -> T:
        import httpx

        url = f"{self.connection.url}{call.url_path}"
        headers, content = self._headers, None
        if call.body is not None:
            headers, content = {**headers, "Content-Type": "application/json"}, encode(call.body)
        try:
            response = self._http.request(
                call.method, url, params=list(call.params), content=content, headers=headers
            )
        except httpx.RequestError as error:
            unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
            raise ConnectionFailed(
                f"No answer from {self.connection.url}: {error or type(error).__name__}.",
                sent=not isinstance(error, unsent),
            ) from error
        return read_answer(call, response.status_code, response.headers, response.content)


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

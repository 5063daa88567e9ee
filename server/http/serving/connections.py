"""Limits on client connections: how many, and how long a request may take to arrive."""

import asyncio
from typing import Final

from server.errors import TooManyOpen, Unavailable
from server.http.access.auth_middleware import client_network
from server.http.client_address import normalized_address
from server.http.limits import is_upload
from server.http.problem_responses import problem_response
from server.http.serving.connection_limits import Admission, OpenConnections, Phase
from server.http.serving.http_protocol import ProblemProtocol

HEAD_TIMEOUT_S: Final = 20.0
"""How long a client may take for a request's first line and headers."""
BODY_TIMEOUT_S: Final = 60.0
"""How long it may take for the body, also for one that was refused; for uploads, for its next
piece."""


class ConnectionProtocol(ProblemProtocol):
    """The protocol of one connection, with time limits; uvicorn's keep-alive limit applies too."""

    open_connections: OpenConnections
    """The connections of the server; set by `connection_class`."""
    address = "unknown"
    _timeout: asyncio.TimerHandle | None = None
    _request_is_complete = False
    _is_upload = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected: its first request must arrive in time."""
        super().connection_made(transport)
        if self.client is not None:
            self.address = client_network({"client": (normalized_address(self.client[0]), 0)})
        match self.open_connections.admit(self):
            case Admission.ADDRESS_FULL:
                connections_text = (
                    f"This address has {self.open_connections.limits.per_address} connections"
                )
                self._refuse_all(TooManyOpen(f"{connections_text} open, the maximum."))
            case Admission.SERVER_FULL:
                connections_text = (
                    f"This server has {self.open_connections.limits.total} connections"
                )
                self._refuse_all(
                    Unavailable(f"{connections_text} open, the maximum; try again soon.")
                )
            case Admission.RESET:
                self.drop()
                return
        self._wait(HEAD_TIMEOUT_S)

    def on_message_begin(self) -> None:
        """A request begins, possibly while the previous one is being handled."""
        self._request_is_complete = False
        if not self._is_answering:
            self.open_connections.enter(self, Phase.UNFINISHED)
        self._wait(HEAD_TIMEOUT_S)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head has arrived."""
        self._wait(BODY_TIMEOUT_S)
        super().on_headers_complete()
        self._is_upload = is_upload(self.scope["method"], self.scope["path"])

    def on_body(self, body: bytes) -> None:
        """A piece of a body. That of an upload may take any time while it is being received."""
        super().on_body(body)
        if self._is_upload and self._is_answering:
            self.open_connections.enter(self, Phase.BUSY)
            self._wait(BODY_TIMEOUT_S)

    def on_message_complete(self) -> None:
        """The body has arrived."""
        self._stop_waiting()
        self._request_is_complete = True
        super().on_message_complete()
        self._report_phase()

    def on_response_complete(self) -> None:
        """The response is sent, and the next request may have begun."""
        super().on_response_complete()
        self._report_phase()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._stop_waiting()
        self.open_connections.remove(self)
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection at once, in favour of others."""
        self._stop_waiting()
        self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _report_phase(self) -> None:
        phase = Phase.BUSY if self._is_answering else Phase.IDLE
        self.open_connections.enter(self, phase if self._request_is_complete else Phase.UNFINISHED)

    def _refuse_all(self, error: Exception) -> None:
        """Refuse any request, then close the connection."""
        response = problem_response(error)
        response.headers["Connection"] = "close"
        self.app = response

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timeout = self.loop.call_later(seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def connection_class(open_connections: OpenConnections) -> type[ConnectionProtocol]:
    """The protocol class for a server whose connections are counted in `open_connections`."""
    return type("CountedConnection", (ConnectionProtocol,), {"open_connections": open_connections})

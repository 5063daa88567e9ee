"""Limits on client connections: how many, and how long a request may take to arrive."""

import asyncio
from typing import Final

from server.access.door import address_of
from server.errors import TooManyOpen, Unavailable, answer
from server.http.client_address import plain
from server.serving.malformed import ProblemProtocol
from server.serving.open_connections import OpenConnections, Phase, Verdict

HEAD_S: Final = 20.0
"""How long a client may take for a request's first line and headers."""
BODY_S: Final = 60.0
"""How long it may take for the body, also for one that was refused."""


class Connection(ProblemProtocol):
    """One connection; between two requests uvicorn's own limit holds."""

    open_connections: OpenConnections
    """All that the server has; set by `connection_class`."""
    address = "unknown"
    _timeout: asyncio.TimerHandle | None = None
    _request_is_complete = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there: its first request must come."""
        super().connection_made(transport)
        if self.client is not None:
            self.address = address_of({"client": (plain(self.client[0]), 0)})
        match self.open_connections.admit(self):
            case Verdict.ADDRESS_FULL:
                most = f"This address has {self.open_connections.bounds.per_address} connections"
                self._refuse_all(TooManyOpen(f"{most} open, the most."))
            case Verdict.SERVER_FULL:
                most = f"This server keeps {self.open_connections.bounds.in_all} connections"
                self._refuse_all(Unavailable(f"{most} open and no more; try again soon."))
            case Verdict.UNHEARD:
                self.drop()
                return
        self._wait(HEAD_S)

    def on_message_begin(self) -> None:
        """A request begins, perhaps while the one before it is being answered."""
        self._request_is_complete = False
        if not self._is_answering:
            self.open_connections.enter(self, Phase.UNFINISHED)
        self._wait(HEAD_S)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._wait(BODY_S)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is there."""
        self._stop_waiting()
        self._request_is_complete = True
        super().on_message_complete()
        self._tell_phase()

    def on_response_complete(self) -> None:
        """The answer is sent, and the next one may have begun."""
        super().on_response_complete()
        self._tell_phase()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_waiting()
        self.open_connections.remove(self)
        super().connection_lost(exc)

    def drop(self) -> None:
        """End the connection at once: others need its place."""
        self._stop_waiting()
        self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _tell_phase(self) -> None:
        phase = Phase.BUSY if self._is_answering else Phase.IDLE
        self.open_connections.enter(self, phase if self._request_is_complete else Phase.UNFINISHED)

    def _refuse_all(self, error: Exception) -> None:
        """Answer whatever it asks with a refusal, and end it then."""
        response = answer(error)
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


def connection_class(among: OpenConnections) -> type[Connection]:
    """The protocol of a server's connections, which count among these."""
    return type("CountedConnection", (Connection,), {"open_connections": among})

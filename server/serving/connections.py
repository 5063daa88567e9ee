"""Connections of clients: one that never finishes its request keeps none, and there is a most."""

import asyncio
from typing import Any, Final

from server.errors import Unavailable, answer
from server.serving.malformed import ProblemProtocol

HEAD_S: Final = 20.0
"""How long a client may take for a request's first line and headers."""
BODY_S: Final = 60.0
"""How long it may take for the body, also for one that was refused."""


class Connection(ProblemProtocol):
    """One connection; between two requests uvicorn's own limit holds."""

    _patience: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._most = self.config.limit_concurrency
        self.limit_concurrency = None  # uvicorn's own answer is no problem+json

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there: its first request must come."""
        super().connection_made(transport)
        if self._most is not None and len(self.connections) > self._most:
            self.app = _crowded(self._most)  # those that are there already stay
        self._wait(HEAD_S)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._wait(HEAD_S)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._wait(BODY_S)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is there."""
        self._stop_waiting()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._patience = self.loop.call_later(seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def _crowded(most: int) -> Any:
    error = Unavailable(f"This server keeps {most} connections open and no more; try again soon.")
    response = answer(error)
    response.headers["Connection"] = "close"
    return response

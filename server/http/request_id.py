"""An id for every request: taken from the client or made, in the answer, and on every log line."""

import logging
import re
import secrets
import time
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.logs import NOTHING, context

access = logging.getLogger("server.access")
log = logging.getLogger(__name__)

HEADER: Final = b"x-request-id"
USABLE: Final = re.compile(rb"[A-Za-z0-9._-]{1,128}")
LONGEST_PATH: Final = 200
"""Characters of a path in the log."""


class RequestId:
    """ASGI middleware around everything else: the id, and one line in the log for each request."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer, and see what it answered."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["request_id"] = request_id = _given(scope) or secrets.token_hex(8)
        answer = _Answer(send, request_id)
        before = context.set({**context.get(NOTHING), "request_id": request_id})
        try:
            await self.app(scope, receive, answer)
        except Exception:
            # The client has its answer already, or sees the connection end before that.
            log.exception("the request failed")
            if not answer.complete:
                raise
        finally:
            _tell(scope, answer)
            context.reset(before)


class _Answer:
    """Sends what the application answers, with the id; remembers what that was."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._header = (HEADER, request_id.encode("ascii"))
        self._started = time.perf_counter()
        self.status: int | None = None
        self.complete = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), self._header]}
        elif message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
        await self._send(message)

    @property
    def duration_ms(self) -> float:
        """From the request's head to now."""
        return round(1000 * (time.perf_counter() - self._started), 1)


def _given(scope: Scope) -> str | None:
    """The client's id for the request, if it can be put on a line as it is."""
    for name, value in scope["headers"]:
        if name == HEADER:
            return value.decode("ascii") if USABLE.fullmatch(value) else None
    return None


def _tell(scope: Scope, answer: _Answer) -> None:
    """The line in the log. Of the query nothing is told: people put secrets there."""
    if not access.isEnabledFor(logging.INFO) or scope["state"].get("unlogged"):
        return
    facts: dict[str, Any] = {
        "method": scope["method"],
        "path": scope["path"][:LONGEST_PATH],
        "status": answer.status,
        "duration_ms": answer.duration_ms,
    }
    principal = scope["state"].get("principal")
    if principal is not None:
        facts["token_id"] = principal.token_id
    access.info("%(method)s %(path)s %(status)s %(duration_ms)s ms", facts, extra=facts)

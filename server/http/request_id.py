"""Request ids and the access log: the id is in the response and on every log line."""

import logging
import re
import secrets
import time
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infra import traces
from infra.log_config import NO_CONTEXT, context

access = logging.getLogger("server.http.access")
log = logging.getLogger(__name__)

HEADER: Final = b"x-request-id"
ID_PATTERN: Final = re.compile(rb"[A-Za-z0-9._-]{1,128}")
MAX_LOGGED_PATH: Final = 200
"""The maximum number of characters of a path in the log."""


class RequestId:
    """ASGI middleware, outermost: sets the request id, and logs one line per request."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, and log its response."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["request_id"] = request_id = _id_from_client(scope) or secrets.token_hex(8)
        observer = _ResponseObserver(send, request_id)
        fields = {"request_id": request_id}
        if (trace_id := traces.trace_id(traces.current_context())) is not None:
            fields["trace_id"] = trace_id
        context_token = context.set({**context.get(NO_CONTEXT), **fields})
        try:
            await self.app(scope, receive, observer)
        except Exception:
            # The client has the response already, or sees the connection close.
            log.exception("the request failed")
            if not observer.complete:
                raise
        finally:
            _log_request(scope, observer)
            context.reset(context_token)


class _ResponseObserver:
    """Sends the application's response with the id, and remembers its status."""

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
        """Time since the request's headers arrived."""
        return round(1000 * (time.perf_counter() - self._started), 1)


def _id_from_client(scope: Scope) -> str | None:
    """The client's X-Request-ID, if it is safe in a log line."""
    for name, value in scope["headers"]:
        if name == HEADER:
            return value.decode("ascii") if ID_PATTERN.fullmatch(value) else None
    return None


def _log_request(scope: Scope, observer: _ResponseObserver) -> None:
    """Log the request, without its query string: people put secrets there."""
    if not access.isEnabledFor(logging.INFO) or scope["state"].get("unlogged"):
        return
    facts: dict[str, Any] = {
        "method": scope["method"],
        "path": scope["path"][:MAX_LOGGED_PATH],
        "status": observer.status,
        "duration_ms": observer.duration_ms,
    }
    principal = scope["state"].get("principal")
    if principal is not None:
        facts["token_id"] = principal.token_id
    access.info("%(method)s %(path)s %(status)s %(duration_ms)s ms", facts, extra=facts)

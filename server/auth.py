"""The door: nothing but the health of the server is told without a token."""

import base64
import binascii
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import DATABASE_ERRORS, Unauthorized, answer
from store import tokens
from store.database import Database

OPEN: Final = frozenset({"/healthz", "/readyz"})
PAGES: Final = ("/api/v1/docs", "/api/v1/docs/", "/api/v1/openapi.json")
"""What a browser opens: these also take the token as the password of HTTP Basic."""

BEARER: Final = 'Bearer realm="ampcore"'
BASIC: Final = 'Basic realm="ampcore", charset="UTF-8"'
HINT: Final = "Send the header 'Authorization: Bearer <token>'"


class Door:
    """ASGI middleware: 401 for a request without a valid token, before anything else is read."""

    def __init__(self, app: ASGIApp, database: Database) -> None:
        self.app = app
        self._database = database

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request in, or answer it here."""
        if scope["type"] == "http" and scope["path"] not in OPEN:
            try:
                await run_in_threadpool(self._check, scope)
            except (Unauthorized, *DATABASE_ERRORS) as error:
                await answer(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        page = _is_page(scope)
        challenges = (BEARER, BASIC) if page else (BEARER,)
        secret = _secret(Headers(scope=scope).get("authorization", ""), basic=page)
        if secret is None:
            raise Unauthorized(f"{HINT}; received none.", challenges)
        with self._database.read() as session:
            if tokens.verify(session, secret) is None:
                invalid = (f'{BEARER}, error="invalid_token"', *challenges[1:])
                raise Unauthorized(f"{HINT}; the one received is not valid here.", invalid)


def _is_page(scope: Scope) -> bool:
    path = scope["path"]
    return scope["method"] == "GET" and (path in PAGES or path.startswith(PAGES[1]))


def _secret(header: str, *, basic: bool) -> str | None:
    """The token in an Authorization header; that of Basic is the password, for any user."""
    scheme, _, value = header.strip().partition(" ")
    match scheme.lower():
        case "bearer":
            return value.strip() or None
        case "basic" if basic:
            try:
                pair = base64.b64decode(value.strip(), validate=True).decode("utf-8")
            except (binascii.Error, UnicodeDecodeError):
                return None
            return pair.partition(":")[2] or None
    return None

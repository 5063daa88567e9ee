"""The door: nothing but the health of the server is told without a token."""

from ipaddress import IPv6Network
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from server.access import credentials
from server.access.keyring import Credential, Keyring, Kind
from server.access.principal import Principal
from server.access.rate_limit import Limit
from server.access.sessions import SAFE, refuse_cross_origin
from server.errors import DATABASE_ERRORS, ServerError, TooManyRequests, answer
from store.database_errors import is_outage

OPEN: Final = frozenset({"/healthz", "/readyz"})
SIGN_IN: Final = ("POST", "/api/v1/session")
"""It carries its token in the body."""
PAGE: Final = "/"
PAGE_FILES: Final = "/assets"
"""The dashboard: files without a secret; the page asks for everything else as anybody does."""
WATCHED: Final = "/metrics"
OUTAGE_S: Final = 600.0
"""How long a token that was valid is good for a scrape that nobody can check it for."""


class Door:
    """ASGI middleware: 401 for a request without a valid token, before anything else is read.

    Who comes in is at `scope["state"]["principal"]` for everything behind it.
    """

    def __init__(self, app: ASGIApp, keyring: Keyring, limit: Limit) -> None:
        self.app = app
        self._keyring = keyring
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request in, or answer it here."""
        if scope["type"] == "http":
            state = scope.setdefault("state", {})
            try:
                if not _is_open(scope):
                    state["principal"] = await self._principal(scope)
            except (ServerError, *DATABASE_ERRORS) as error:
                await answer(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    async def _principal(self, scope: Scope) -> Principal:
        """Whose request it is. Raises Unauthorized, CrossOrigin or TooManyRequests."""
        credential = credentials.read(scope)
        principal = self._keyring.recall(credential)
        if principal is None:
            principal = await self._ask(credential, scope)
        if principal is None:
            raise credentials.invalid(scope)
        if credential.kind is Kind.COOKIE and scope["method"] not in SAFE:
            refuse_cross_origin(scope)
        self._limit.hit(principal.token_id)
        return principal

    async def _ask(self, credential: Credential, scope: Scope) -> Principal | None:
        try:
            return await self._keyring.ask(credential, address_of(scope))
        except TooManyRequests:
            scope["state"]["unlogged"] = True  # a flood of guesses would fill the log
            raise
        except DATABASE_ERRORS as error:
            known = self._keyring.recall(credential, grace_s=OUTAGE_S)
            if scope["path"] != WATCHED or known is None or not is_outage(error):
                raise
            return known


def address_of(scope: Scope) -> str:
    """The client's address; that of an IPv6 network, of which one machine has all addresses."""
    host = str(scope["client"][0]) if scope.get("client") else "unknown"
    try:
        return str(IPv6Network((host.partition("%")[0], 64), strict=False))
    except ValueError:  # an IPv4 address, or a socket's name
        return host


def _is_open(scope: Scope) -> bool:
    method, path = scope["method"], scope["path"]
    if method in SAFE and (path in (PAGE, PAGE_FILES) or path.startswith(f"{PAGE_FILES}/")):
        return True
    return path in OPEN or (method, path) == SIGN_IN

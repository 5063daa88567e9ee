"""Authentication middleware: every request but health checks and static files needs a token."""

from ipaddress import IPv6Network
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import DATABASE_ERRORS, ServerError, TooManyRequests
from server.http.access import credentials
from server.http.access.authenticator import Authenticator, Credential, CredentialKind
from server.http.access.principal import Principal
from server.http.access.rate_limit import RateLimit
from server.http.access.session_cookie import SAFE_METHODS, check_same_origin
from server.http.problem_responses import problem_response
from store.database_errors import is_outage

PUBLIC_PATHS: Final = frozenset({"/healthz", "/readyz"})
SIGN_IN: Final = ("POST", "/api/v1/session")
"""Signing in: the token is in the body."""
SIGN_ON_PATHS: Final = frozenset(
    {"/api/v1/sign-in", "/api/v1/sign-in/start", "/api/v1/sign-in/callback"}
)
"""Signing in with the provider, by GET."""
DASHBOARD_PATH: Final = "/"
DASHBOARD_ASSETS: Final = "/assets"
"""The dashboard's static files, which hold no secret."""
METRICS_PATH: Final = "/metrics"
METRICS_GRACE_S: Final = 600.0
"""How long a token stays valid for /metrics while the database is down."""


class AuthMiddleware:
    """ASGI middleware: 401 for a request without a valid token, before anything else is read.

    The principal is in `scope["state"]["principal"]` for the application.
    """

    def __init__(self, app: ASGIApp, authenticator: Authenticator, limit: RateLimit | None) -> None:
        self.app = app
        self._authenticator = authenticator
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "http":
            state = scope.setdefault("state", {})
            try:
                if not _is_public(scope):
                    state["principal"] = await self._principal(scope)
            except (ServerError, *DATABASE_ERRORS) as error:
                await problem_response(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    async def _principal(self, scope: Scope) -> Principal:
        """The principal of a request. Raises Unauthorized, CrossOrigin or TooManyRequests."""
        credential = credentials.read(scope)
        principal = self._authenticator.cached_principal(credential)
        if principal is None:
            principal = await self._ask(credential, scope)
        if principal is None:
            raise credentials.invalid_token_error(scope)
        is_token = credential.kind is CredentialKind.TOKEN
        if not is_token and scope["method"] not in SAFE_METHODS:
            check_same_origin(scope)
        if self._limit is not None:
            self._limit.hit(principal.token_id)
        return principal

    async def _ask(self, credential: Credential, scope: Scope) -> Principal | None:
        try:
            return await self._authenticator.authenticate(credential, client_network(scope))
        except TooManyRequests:
            scope["state"]["unlogged"] = True  # many wrong secrets would fill the log
            raise
        except DATABASE_ERRORS as error:
            cached_principal = self._authenticator.cached_principal(
                credential, grace_s=METRICS_GRACE_S
            )
            if scope["path"] != METRICS_PATH or cached_principal is None or not is_outage(error):
                raise
            return cached_principal


def client_network(scope: Scope) -> str:
    """The client's address; for IPv6 the /64 network, because one machine may use all of it."""
    host = str(scope["client"][0]) if scope.get("client") else "unknown"
    try:
        return str(IPv6Network((host.partition("%")[0], 64), strict=False))
    except ValueError:  # an IPv4 address, or the name of a socket
        return host


def _is_public(scope: Scope) -> bool:
    method, path = scope["method"], scope["path"]
    if method in SAFE_METHODS and (
        path in (DASHBOARD_PATH, DASHBOARD_ASSETS) or path.startswith(f"{DASHBOARD_ASSETS}/")
    ):
        return True
    if method in SAFE_METHODS and path in SIGN_ON_PATHS:
        return True
    return path in PUBLIC_PATHS or (method, path) == SIGN_IN

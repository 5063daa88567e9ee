"""Read the credential of a request: an Authorization header or a cookie, never the URL."""

import base64
import binascii
from typing import Final
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from server.errors import Unauthorized
from server.http.access.authenticator import Credential, CredentialKind
from server.http.access.session_cookie import COOKIE, read_person_cookie
from store.access.tokens import SECRET_PREFIX, digest_of

BASIC_AUTH_PATHS: Final = ("/api/v1/docs", "/api/v1/docs/", "/api/v1/openapi.json")
"""Pages that a browser opens: they also accept the token as the password of HTTP Basic."""

BEARER: Final = 'Bearer realm="ampcore"'
BASIC: Final = 'Basic realm="ampcore", charset="UTF-8"'
HINT: Final = "Send the header 'Authorization: Bearer <token>'"
SECRET_PARAMETERS: Final = frozenset(
    {"token", "access_token", "auth_token", "api_key", "apikey", "key"}
)
"""Query parameters that commonly contain secrets by mistake."""


def read(scope: Scope) -> Credential:
    """The credential of a request. Raises Unauthorized if there is none."""
    if (received := _kind_and_secret(scope)) is not None:
        kind, secret = received
        return Credential(kind, digest_of(secret))
    raise Unauthorized(f"{HINT}; received {_describe_received(scope)}.", _challenges(scope))


def secret_of(scope: Scope) -> str:
    """The secret of an authenticated request; it must not be stored."""
    received = _kind_and_secret(scope)
    return received[1] if received is not None else ""


def _kind_and_secret(scope: Scope) -> tuple[CredentialKind, str] | None:
    headers = Headers(scope=scope)
    header = headers.get("authorization")
    if header is None:
        cookies = cookie_parser(headers.get("cookie", ""))
        if secret := read_person_cookie(cookies, scope["scheme"]):
            return CredentialKind.PERSON, secret
        if secret := cookies.get(COOKIE):
            return CredentialKind.COOKIE, secret
    if header is not None and (secret := _secret_in_header(header, basic=_takes_basic_auth(scope))):
        return CredentialKind.TOKEN, secret
    return None


def invalid_token_error(scope: Scope) -> Unauthorized:
    """The error for a secret that is wrong, expired or revoked."""
    first, *other_challenges = _challenges(scope)
    return Unauthorized(
        f"{HINT}; the token received is not valid on this server.",
        (f'{first}, error="invalid_token"', *other_challenges),
    )


def _challenges(scope: Scope) -> tuple[str, ...]:
    return (BEARER, BASIC) if _takes_basic_auth(scope) else (BEARER,)


def _describe_received(scope: Scope) -> str:
    """What the request contains instead of a credential; URLs end up in logs and histories."""
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=None)
    if any(
        name.lower() in SECRET_PARAMETERS or value.startswith(SECRET_PREFIX)
        for name, value in pairs
    ):
        return "a secret in the URL, which is not accepted; it may now be in logs"
    return "none"


def _takes_basic_auth(scope: Scope) -> bool:
    path = scope["path"]
    return scope["method"] == "GET" and (
        path in BASIC_AUTH_PATHS or path.startswith(BASIC_AUTH_PATHS[1])
    )


def _secret_in_header(header: str, *, basic: bool) -> str | None:
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

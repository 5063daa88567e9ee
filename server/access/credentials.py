"""Where a request carries its secret: a header, or the cookie of a browser; never its address."""

import base64
import binascii
from typing import Final
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from server.access.keyring import Credential, Kind
from server.access.sessions import COOKIE
from server.errors import Unauthorized
from store.tokens import PREFIX, digest_of

PAGES: Final = ("/api/v1/docs", "/api/v1/docs/", "/api/v1/openapi.json")
"""What a browser opens: these also take the token as the password of HTTP Basic."""

BEARER: Final = 'Bearer realm="ampcore"'
BASIC: Final = 'Basic realm="ampcore", charset="UTF-8"'
HINT: Final = "Send the header 'Authorization: Bearer <token>'"
NAMES: Final = frozenset({"token", "access_token", "auth_token", "api_key", "apikey", "key"})
"""What people call a secret in an address."""


def read(scope: Scope) -> Credential:
    """What the request is to be known by. Raises Unauthorized when it carries nothing."""
    if (received := _read(scope)) is not None:
        kind, secret = received
        return Credential(kind, digest_of(secret))
    raise Unauthorized(f"{HINT}; received {_received(scope)}.", _challenges(scope))


def secret_of(scope: Scope) -> str:
    """The secret of a request that was let in; to be computed with and kept nowhere."""
    received = _read(scope)
    return received[1] if received is not None else ""


def _read(scope: Scope) -> tuple[Kind, str] | None:
    headers = Headers(scope=scope)
    header = headers.get("authorization")
    if header is None and (secret := cookie_parser(headers.get("cookie", "")).get(COOKIE)):
        return Kind.COOKIE, secret
    if header is not None and (secret := _secret(header, basic=_is_page(scope))):
        return Kind.TOKEN, secret
    return None


def invalid(scope: Scope) -> Unauthorized:
    """The answer to a secret that is not, or no more, valid."""
    first, *others = _challenges(scope)
    return Unauthorized(
        f"{HINT}; the one received is not valid here.", (f'{first}, error="invalid_token"', *others)
    )


def _challenges(scope: Scope) -> tuple[str, ...]:
    return (BEARER, BASIC) if _is_page(scope) else (BEARER,)


def _received(scope: Scope) -> str:
    """An address ends up in logs and histories, so what it says opens nothing."""
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=None)
    if any(name.lower() in NAMES or value.startswith(PREFIX) for name, value in pairs):
        return "a secret in the address, where it is never read: it may be in logs now"
    return "none"


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

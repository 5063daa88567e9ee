"""The session cookies of a browser, and the check that our own page sent them (CSRF)."""

from collections.abc import Mapping
from typing import Final

from fastapi import Response
from starlette.datastructures import Headers
from starlette.types import Scope

from server.errors import CrossOrigin
from store.access.browser_sessions import LIFETIME_S

COOKIE: Final = "ampcore_session"
"""The session of a token."""
PERSON_COOKIE: Final = "ampcore_person"
"""The session of a person who has signed in with the provider."""
HOST_PREFIX: Final = "__Host-"
"""Browsers take a cookie of such a name only over TLS, and from this host alone."""
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def set_cookie(response: Response, secret: str, *, secure: bool) -> None:
    """Set the cookie; scripts and other sites cannot read it."""
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(LIFETIME_S),
        path="/",
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def clear_cookie(response: Response, *, secure: bool) -> None:
    """Delete the cookie."""
    response.delete_cookie(COOKIE, path="/", secure=secure, httponly=True, samesite="strict")


def person_cookie_name(*, secure: bool) -> str:
    """The name of the cookie of a person's session."""
    return f"{HOST_PREFIX}{PERSON_COOKIE}" if secure else PERSON_COOKIE


def read_person_cookie(cookies: Mapping[str, str], scheme: str) -> str | None:
    """The secret of a person's session; over TLS only that of the name with the prefix.

    The host of another name in the same domain can set one without it.
    """
    secret = cookies.get(person_cookie_name(secure=True))
    if not secret and scheme == "http":
        secret = cookies.get(person_cookie_name(secure=False))
    return secret or None


def set_person_cookie(response: Response, secret: str, *, secure: bool, lifetime_s: float) -> None:
    """Set the cookie of a person's session; scripts and other sites cannot read it."""
    response.set_cookie(
        person_cookie_name(secure=secure),
        secret,
        max_age=int(lifetime_s),
        path="/",
        secure=secure,
        httponly=True,
        samesite="lax",
    )


def clear_person_cookie(response: Response, cookies: Mapping[str, str]) -> None:
    """Delete the cookie of a person's session, if the browser has sent it."""
    for secure in (True, False):
        name = person_cookie_name(secure=secure)
        if name in cookies:
            response.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="lax")


def check_same_origin(scope: Scope) -> None:
    """Raise CrossOrigin unless Sec-Fetch-Site or Origin says that our own page sent the request.

    Browsers set both headers, and no page can change them.
    """
    headers = Headers(scope=scope)
    expected = f"{scope['scheme']}://{headers.get('host', '')}".lower()
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if site in (None, "same-origin") and (site if origin is None else origin.lower() == expected):
        return
    raise CrossOrigin(
        f"Expected the header 'Origin: {expected}', received {origin or 'none'}. A proxy in front "
        "must forward Host and X-Forwarded-Proto, and be listed in AMPCORE_TRUSTED_PROXIES."
    )


def is_from_browser(scope: Scope) -> bool:
    """Whether a browser sent one of these headers."""
    headers = Headers(scope=scope)
    return "origin" in headers or "sec-fetch-site" in headers

"""The session cookie of a browser, and the check that our own page sent it (CSRF)."""

from typing import Final

from fastapi import Response
from starlette.datastructures import Headers
from starlette.types import Scope

from server.errors import CrossOrigin
from store.access.browser_sessions import LIFETIME_S

COOKIE: Final = "ampcore_session"
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

"""The cookie of a browser that has signed in, and the proof that a page of ours sent it."""

from typing import Final

from fastapi import Response
from starlette.datastructures import Headers
from starlette.types import Scope

from server.errors import CrossOrigin
from store.sessions import LASTS_S

COOKIE: Final = "ampcore_session"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def set_cookie(response: Response, secret: str, *, secure: bool) -> None:
    """Let the browser keep the secret, out of the reach of scripts and of other sites."""
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(LASTS_S),
        path="/",
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def clear_cookie(response: Response, *, secure: bool) -> None:
    """Let the browser forget the secret."""
    response.delete_cookie(COOKIE, path="/", secure=secure, httponly=True, samesite="strict")


def refuse_cross_origin(scope: Scope) -> None:
    """Raises CrossOrigin unless a page of this very origin sent the request, as a browser tells it.

    Browsers send both headers by themselves, and no page can change them.
    """
    headers = Headers(scope=scope)
    own = f"{scope['scheme']}://{headers.get('host', '')}".lower()
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if site in (None, "same-origin") and (site if origin is None else origin.lower() == own):
        return
    raise CrossOrigin(
        f"Expected the header 'Origin: {own}', received {origin or 'none'}. A proxy in front must "
        "hand on Host and X-Forwarded-Proto, and be named in AMPCORE_TRUSTED_PROXIES."
    )


def comes_from_a_page(scope: Scope) -> bool:
    """True when a browser says where the request comes from."""
    headers = Headers(scope=scope)
    return "origin" in headers or "sec-fetch-site" in headers

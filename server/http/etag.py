"""Conditional requests: ETag, and 304 while nothing has changed (RFC 9110, section 13)."""

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from fastapi import Request, Response

CACHE_HEADERS: Final = {"Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
"""Always revalidate: jobs change, and the response depends on the principal."""

TAG: Final = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def etag_of(*facts: Any) -> str:
    """A weak ETag of the facts that determine a response."""
    return f'W/"{sha256(repr(facts).encode("utf-8", "backslashreplace")).hexdigest()[:32]}"'


def respond_unless_cached(request: Request, etag: str, make: Callable[[], Response]) -> Response:
    """The response of `make`, or 304 if the client already has the one with this ETag."""
    fresh = matches_if_none_match(request.headers.getlist("if-none-match"), etag)
    response = Response(status_code=304) if fresh else make()
    response.headers["ETag"] = etag
    for name, value in CACHE_HEADERS.items():
        response.headers[name] = value
    return response


def respond_unless_body_cached(request: Request, response: Response) -> Response:
    """The response, or 304, with an ETag of its bytes."""
    return respond_unless_cached(request, etag_of(bytes(response.body)), lambda: response)


def matches_if_none_match(headers: list[str], etag: str) -> bool:
    """Whether If-None-Match names the ETag, by weak comparison."""
    header = ", ".join(headers)
    if header.strip() == "*":
        return True
    return etag.removeprefix("W/") in TAG.findall(header)

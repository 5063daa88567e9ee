"""Answers that a client may keep: their ETag, and 304 while nothing has changed (RFC 9110, 13)."""

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from fastapi import Request, Response

HEADERS: Final = {"Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
"""Ask again each time: what a job looks like changes, and what one sees depends on who asks."""

TAG: Final = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def etag_of(*facts: Any) -> str:
    """The tag of an answer that these facts decide; weak, since they are not its bytes."""
    return f'W/"{sha256(repr(facts).encode("utf-8", "backslashreplace")).hexdigest()[:32]}"'


def conditional(request: Request, etag: str, make: Callable[[], Response]) -> Response:
    """What `make` makes, or 304 when the client has the answer with this tag already."""
    fresh = is_known(request.headers.getlist("if-none-match"), etag)
    response = Response(status_code=304) if fresh else make()
    response.headers["ETag"] = etag
    for name, value in HEADERS.items():
        response.headers[name] = value
    return response


def conditional_on_body(request: Request, response: Response) -> Response:
    """The answer as it is, or 304, by a tag of its bytes."""
    return conditional(request, etag_of(bytes(response.body)), lambda: response)


def is_known(headers: list[str], etag: str) -> bool:
    """Whether If-None-Match names the tag; by the weak comparison, as it is meant to be."""
    header = ", ".join(headers)
    if header.strip() == "*":
        return True
    return etag.removeprefix("W/") in TAG.findall(header)

"""Which bytes of a file a request asks for (RFC 9110, section 14)."""

import re
from typing import Final

from starlette.datastructures import Headers

from server.errors import RangeNotSatisfiable

RANGE: Final = re.compile(r"bytes=\s*+(\d{0,18})\s*+-\s*+(\d{0,18})", re.ASCII | re.IGNORECASE)
"""Blanks are never given back (`*+`), or a header full of them would be tried in every way."""


def wanted(headers: Headers, etag: str, size: int) -> tuple[int, int] | None:
    """The first byte and the one after the last; None: the whole file.

    Several ranges at once are answered with the whole file, as is a range of a file that is no
    more the one that the client knows (If-Range). Raises RangeNotSatisfiable.
    """
    given = headers.get("range", "")
    if not given or headers.get("if-range", etag) != etag:
        return None
    match = RANGE.fullmatch(given.strip())
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < int(first):
            return None  # no range at all, and so not one that cannot be met
    if start >= end:
        raise RangeNotSatisfiable(size)
    return start, end

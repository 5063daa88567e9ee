"""Range requests: which bytes of a file are requested (RFC 9110, section 14)."""

import re
from typing import Final

from starlette.datastructures import Headers

from server.errors import RangeNotSatisfiable

RANGE: Final = re.compile(r"bytes=\s*+(\d{0,18})\s*+-\s*+(\d{0,18})", re.ASCII | re.IGNORECASE)
"""Possessive quantifiers (`*+`): a header full of spaces must not cause backtracking."""


def requested_range(headers: Headers, etag: str, size: int) -> tuple[int, int] | None:
    """The first byte and the one after the last; None for the whole file.

    Several ranges select the whole file, and so does a range if If-Range shows that the client
    knows another version of the file. Raises RangeNotSatisfiable.
    """
    range_header = headers.get("range", "")
    if not range_header or headers.get("if-range", etag) != etag:
        return None
    match = RANGE.fullmatch(range_header.strip())
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < int(first):
            return None  # invalid, so ignored
    if start >= end:
        raise RangeNotSatisfiable(size)
    return start, end

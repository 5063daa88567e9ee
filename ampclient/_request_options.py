"""What the caller may set for one request."""

from collections.abc import Mapping
from typing import TypedDict


class RequestOptions(TypedDict, total=False):
    """Keyword arguments of every operation that sends requests."""

    timeout: float | None
    """Seconds without a byte from the server until an attempt fails. None: the client's."""
    headers: Mapping[str, str] | None
    """Sent beside the client's own headers, which they do not replace."""

"""Options that the caller may set for one request."""

from collections.abc import Mapping
from typing import TypedDict


class RequestOptions(TypedDict, total=False):
    """Keyword arguments of every operation that sends requests."""

    timeout: float | None
    """Seconds without a byte from the server until an attempt fails. None: the client's timeout."""
    headers: Mapping[str, str] | None
    """Headers sent in addition to the client's own, which they cannot replace."""

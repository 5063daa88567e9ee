"""Options of a client, and those that a caller may set for one call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict


class RequestOptions(TypedDict, total=False):
    """Keyword arguments of every operation that sends requests."""

    timeout_s: float | None
    """Seconds without a byte from the server until a try fails. None: the client's timeout."""
    max_retries: int | None
    """How often a request is sent again at most. None: the client's limit."""
    headers: Mapping[str, str] | None
    """Headers sent in addition to those of the client. They cannot replace `Authorization`."""


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """What a client does where a call does not say otherwise."""

    timeout_s: float | None = None
    """None: the timeout of the HTTP client."""
    max_retries: int | None = None
    """None: as many retries as fit into the time for retries."""
    default_headers: Mapping[str, str] = field(default_factory=dict)

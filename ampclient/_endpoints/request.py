"""A request as a value, with the parser of its response; does no I/O."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from urllib.parse import quote
from uuid import uuid4

from ampclient.connection import API_PREFIX

T_co = TypeVar("T_co", covariant=True)
M = TypeVar("M")

Params = Sequence[tuple[str, str]]
IDEMPOTENCY_KEY: Final = "Idempotency-Key"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request to the API."""

    method: str
    path: str
    params: Params = ()
    headers: Params = ()
    body: Any = None
    is_read_only: bool = False
    """True for a POST that changes nothing."""
    uses_etag: bool = False
    """True for a polled request: its last response is cached and requested conditionally."""
    wait_s: float = 0.0
    """How long the server may hold the request before it responds."""

    @property
    def url_path(self) -> str:
        """The path from the server's root."""
        return f"{API_PREFIX}{self.path}"

    @property
    def is_idempotent(self) -> bool:
        """Whether sending it twice has the same effect as sending it once."""
        return self.method == "GET" or self.is_read_only or self.idempotency_key is not None

    @property
    def idempotency_key(self) -> str | None:
        """The key with which the server applies the request only once."""
        return dict(self.headers).get(IDEMPOTENCY_KEY)


@dataclass(frozen=True, kw_only=True)
class JsonRequest(Request, Generic[T_co]):
    """A request, and the function that parses its JSON response (None for an empty one)."""

    read: Callable[[Any], T_co]


def idempotency_header(key: str | None = None) -> Params:
    """The Idempotency-Key header, by default with a new key for retries of one call.

    The server applies requests with the same key once and returns the same response.
    """
    return [(IDEMPOTENCY_KEY, key or str(uuid4()))]


def quote_path(text: str) -> str:
    """The text as one URL path segment."""
    return quote(text, safe="")


def job_path(job_id: str, *segments: str) -> str:
    """The path of a job or of one of its subresources."""
    return "/".join(["/jobs", quote_path(job_id), *segments])


def params(**values: str | int | None) -> list[tuple[str, str]]:
    """The parameters that have a value."""
    return [(name, str(value)) for name, value in values.items() if value is not None]


class ItemList(Protocol[M]):
    """An API model that only holds a list."""

    @property
    def items(self) -> list[M]:
        """The list."""

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Parse a JSON document."""


def items_of(model: type[ItemList[M]]) -> Callable[[Any], list[M]]:
    """A parser that returns the items of a list document."""
    return lambda document: model.from_json(document).items


def parse_nothing(document: Any) -> None:
    """The parser of a response without content."""

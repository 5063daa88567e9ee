"""A request as a value, and what its answer means; no input or output."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from urllib.parse import quote
from uuid import uuid4

from ampclient.connection import API_PREFIX

T = TypeVar("T")
M = TypeVar("M")

Params = Sequence[tuple[str, str]]
IDEMPOTENCY_KEY: Final = "Idempotency-Key"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to send."""

    method: str
    path: str
    params: Params = ()
    headers: Params = ()
    body: Any = None
    is_read_only: bool = False
    """It is a POST that changes nothing."""
    uses_etag: bool = False
    """Asked for again and again: the last answer is kept, and sent anew only if it changed."""

    @property
    def url_path(self) -> str:
        """The path from the server's root."""
        return f"{API_PREFIX}{self.path}"

    @property
    def is_idempotent(self) -> bool:
        """Sending it twice does what sending it once does."""
        return self.method == "GET" or self.is_read_only or self.idempotency_key is not None

    @property
    def idempotency_key(self) -> str | None:
        """What makes the server do it once, however often it is sent."""
        return dict(self.headers).get(IDEMPOTENCY_KEY)


@dataclass(frozen=True, kw_only=True)
class JsonRequest(Request, Generic[T]):
    """A request, and the function that reads its answer's JSON document (None: an empty one)."""

    read: Callable[[Any], T]


def idempotency_header(key: str | None = None) -> Params:
    """The header under which the server does a thing once and answers the same again.

    Without a `key` with a new one: for a call that nobody but the transport repeats.
    """
    return [(IDEMPOTENCY_KEY, key or str(uuid4()))]


def quote_path(text: str) -> str:
    """The text as one segment of a path."""
    return quote(text, safe="")


def job_path(job_id: str, *rest: str) -> str:
    """The path of a job, or of something below it."""
    return "/".join(["/jobs", quote_path(job_id), *rest])


def params(**values: str | int | None) -> list[tuple[str, str]]:
    """The parameters that have a value."""
    return [(name, str(value)) for name, value in values.items() if value is not None]


class ItemList(Protocol[M]):
    """A model of the API that holds a list and nothing else."""

    @property
    def items(self) -> list[M]:
        """The list."""

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Read a JSON document."""


def items_of(model: type[ItemList[M]]) -> Callable[[Any], list[M]]:
    """A reader of the list that a document holds."""
    return lambda document: model.from_json(document).items


def parse_nothing(document: Any) -> None:
    """Reads an answer that says no more than its status does."""

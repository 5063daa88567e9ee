"""The HTTP response behind a result, for `client.with_raw_response`."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

recorded_responses: "ContextVar[list[httpx.Response] | None]" = ContextVar(
    "recorded_responses", default=None
)
"""The responses of the current operation; None when they are not recorded."""


@contextmanager
def record_responses() -> "Iterator[list[httpx.Response]]":
    """Collect the responses of all requests that are sent inside the context."""
    responses: list[httpx.Response] = []
    token = recorded_responses.set(responses)
    try:
        yield responses
    finally:
        recorded_responses.reset(token)


def record_response(response: "httpx.Response") -> None:
    """Add a response to those of the current operation, if they are recorded."""
    responses = recorded_responses.get()
    if responses is not None:
        responses.append(response)


@dataclass(frozen=True)
class RawResponse(Generic[T]):
    """A successful HTTP response and the parsed result of the operation."""

    http_response: "httpx.Response"
    result: T

    @property
    def status_code(self) -> int:
        """The HTTP status code."""
        return self.http_response.status_code

    @property
    def headers(self) -> "httpx.Headers":
        """The headers of the response."""
        return self.http_response.headers

    @property
    def request_id(self) -> str | None:
        """The id of the request in the server's log."""
        value: str | None = self.http_response.headers.get("x-request-id")
        return value

    @property
    def content(self) -> bytes:
        """The body of the response. Raises httpx.ResponseNotRead if it was streamed."""
        return self.http_response.content

    def parse(self) -> T:
        """What the operation returns without `with_raw_response`."""
        return self.result

"""A response about jobs before it is sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ampspec.jobs import TERMINAL
from server.http.etag import etag_of


@dataclass(frozen=True)
class JobsResponse:
    """The body, its ETag, and the state of each job in it, by id."""

    body: bytes
    etag: str
    states: Mapping[str, str]

    @classmethod
    def of(cls, body: bytes, states: Mapping[str, str]) -> Self:
        """The response with an ETag of its bytes."""
        return cls(body, etag_of(body), states)

    @property
    def have_ended(self) -> bool:
        """Whether all jobs have ended."""
        return all(state in TERMINAL for state in self.states.values())

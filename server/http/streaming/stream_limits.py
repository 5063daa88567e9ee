"""Limits on long responses and waiting requests: in total, per token, and per address."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from fastapi import Request

from server.errors import TooManyOpen, Unavailable
from server.http.access.auth_middleware import client_network
from server.http.access.principal import Principal


@dataclass(frozen=True)
class StreamLimit:
    """The limits of one kind of response, and its name in messages."""

    what: str
    total: int
    per_token: int
    per_address: int


FOLLOW_LIMIT: Final = StreamLimit("streams", total=500, per_token=100, per_address=250)
"""Streams of events, steps and log lines. They cost little while they wait."""
DOWNLOAD_LIMIT: Final = StreamLimit(
    "downloads and exports", total=200, per_token=20, per_address=60
)
"""Downloads. Each piece takes a thread, so the limit per token is lower."""
WAIT_LIMIT: Final = StreamLimit("waiting requests", total=1000, per_token=200, per_address=500)
"""Requests that wait for a change of jobs. They cost an open connection, and share one query."""


class StreamOwner(NamedTuple):
    """The token and the address that a response counts against."""

    token_id: str
    address: str


def owner_of(request: Request) -> StreamOwner:
    """The owner of the response to a request."""
    principal: Principal = request.scope["state"]["principal"]
    return StreamOwner(principal.token_id, client_network(request.scope))


class OpenStreams:
    """Counts the open responses of one kind. Used only in the event loop."""

    def __init__(self, share: StreamLimit) -> None:
        self.count = 0
        self._share = share
        self._by_token: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()

    def check(self, owner: StreamOwner) -> None:
        """Raise TooManyOpen or Unavailable if another one may not be opened."""
        share = self._share
        if self._by_token[owner.token_id] >= share.per_token:
            raise TooManyOpen(
                f"This token already has {share.per_token} {share.what} open, the maximum."
            )
        if self._by_address[owner.address] >= share.per_address:
            raise TooManyOpen(
                f"This address already has {share.per_address} {share.what} open, the maximum."
            )
        if self.count >= share.total:
            raise Unavailable(
                f"This server already has {share.total} {share.what} open, the maximum; "
                "try again soon."
            )

    @contextmanager
    def one(self, owner: StreamOwner) -> Iterator[None]:
        """Count a response while it is open. Raises as `check`."""
        self.check(owner)
        self._add(owner, 1)
        try:
            yield
        finally:
            self._add(owner, -1)

    def _add(self, owner: StreamOwner, number: int) -> None:
        self.count += number
        for counter, key in (
            (self._by_token, owner.token_id),
            (self._by_address, owner.address),
        ):
            counter[key] += number
            if not counter[key]:
                del counter[key]

"""How many long answers are open at one time: in all, for each token, and for each address."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from fastapi import Request

from server.access.door import address_of
from server.access.principal import Principal
from server.errors import TooManyOpen, Unavailable


@dataclass(frozen=True)
class Share:
    """What may be open, and how a person calls it."""

    what: str
    in_all: int
    per_token: int
    per_address: int


STREAMS: Final = Share("streams", in_all=500, per_token=100, per_address=250)
"""Events, steps and log lines that come while a job runs. They cost little while they wait."""
FILES: Final = Share("downloads and exports", in_all=200, per_token=20, per_address=60)
"""Each takes a thread for every piece, so a token's others wait for these."""


class Owner(NamedTuple):
    """For whom an answer is open."""

    token_id: str
    address: str


def owner_of(request: Request) -> Owner:
    """The token and the address that sent a request."""
    principal: Principal = request.scope["state"]["principal"]
    return Owner(principal.token_id, address_of(request.scope))


class OpenAnswers:
    """The answers of one kind that are open. Used in the event loop only."""

    def __init__(self, share: Share) -> None:
        self.count = 0
        self._share = share
        self._by_token: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()

    def check(self, owner: Owner) -> None:
        """Raises TooManyOpen, or Unavailable, where one more may not be opened."""
        share = self._share
        if self._by_token[owner.token_id] >= share.per_token:
            raise TooManyOpen(f"This token has {share.per_token} {share.what} open, the most.")
        if self._by_address[owner.address] >= share.per_address:
            raise TooManyOpen(f"This address has {share.per_address} {share.what} open, the most.")
        if self.count >= share.in_all:
            raise Unavailable(
                f"This server keeps {share.in_all} {share.what} open and no more; try again soon."
            )

    @contextmanager
    def one(self, owner: Owner) -> Iterator[None]:
        """Count one while it is open. Raises as `check` does."""
        self.check(owner)
        self._add(owner, 1)
        try:
            yield
        finally:
            self._add(owner, -1)

    def _add(self, owner: Owner, number: int) -> None:
        self.count += number
        for counter, key in (
            (self._by_token, owner.token_id),
            (self._by_address, owner.address),
        ):
            counter[key] += number
            if not counter[key]:
                del counter[key]

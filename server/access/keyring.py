"""Whom a secret belongs to: asked of the database, and remembered for a moment."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Final, NamedTuple

from starlette.concurrency import run_in_threadpool

from server.access.principal import Principal, Role
from server.access.rate_limit import Limit
from server.errors import Forbidden
from store import sessions, tokens
from store.database import Database
from store.tokens import Valid

FRESH_S: Final = 1.5
"""How long an answer of the database is believed; a revocation elsewhere counts after that."""
KEPT: Final = 10_000
FAILURES: Final = "30/minute"
"""How many wrong secrets an address may send before the database is spared further ones."""


class Kind(StrEnum):
    """How a secret came."""

    TOKEN = "token"  # noqa: S105 - a word
    COOKIE = "cookie"


class Credential(NamedTuple):
    """What is left of a secret: the digest by which it is looked up."""

    kind: Kind
    digest: str


@dataclass(frozen=True)
class _Known:
    principal: Principal
    told_at: float
    ends_at: float


class Keyring:
    """Answers for known secrets without a query, for some moments, and for no expired one."""

    def __init__(
        self, database: Database, failures: Limit, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.failures = failures
        self._database = database
        self._clock = clock
        self._known: dict[Credential, _Known] = {}
        self._asking: dict[Credential, asyncio.Task[Principal | None]] = {}
        self._changing = Lock()
        self._changes = 0

    def recall(self, credential: Credential, *, grace_s: float = 0.0) -> Principal | None:
        """The principal, where the database told it a moment ago; `grace_s` makes it a longer one.

        No moment is so long that an expired one would be told.
        """
        known = self._known.get(credential)
        if known is None:
            return None
        believed_until = min(known.told_at + FRESH_S + grace_s, known.ends_at)
        return known.principal if self._clock() < believed_until else None

    async def ask(self, credential: Credential, address: str) -> Principal | None:
        """The principal by the database; None: the secret is not valid. Raises TooManyRequests.

        An address that sends wrong secrets is refused those that are not known yet.
        """
        if credential not in self._known:
            self.failures.check(address)
        # Of many requests with one secret at one time a single one asks.
        asking = self._asking.get(credential)
        if asking is None:
            asking = asyncio.create_task(self._ask(credential))
            self._asking[credential] = asking
            asking.add_done_callback(lambda _: self._asking.pop(credential, None))
        principal = await asyncio.shield(asking)
        if principal is None:
            self.failures.hit(address)
        return principal

    def forget(self, token_id: str) -> None:
        """The token, or a session of it, was ended: the database is asked about it again."""
        with self._changing:
            self._changes += 1
            for credential, known in list(self._known.items()):
                if known.principal.token_id == token_id:
                    del self._known[credential]

    async def _ask(self, credential: Credential) -> Principal | None:
        changes, asked_at = self._changes, self._clock()
        found = await run_in_threadpool(self._find, credential)
        with self._changing:
            if found is None:
                self._known.pop(credential, None)
            elif changes == self._changes:  # otherwise it may have been revoked in between
                ends_at = asked_at + found.left_s
                self._remember(credential, _Known(principal_of(found), asked_at, ends_at))
        return principal_of(found) if found is not None else None

    def _remember(self, credential: Credential, known: _Known) -> None:
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[credential] = known

    def _find(self, credential: Credential) -> Valid | None:
        find = sessions.find if credential.kind is Kind.COOKIE else tokens.find
        with self._database.read() as session:
            return find(session, credential.digest)


def principal_of(valid: Valid) -> Principal:
    """Who may do what, by a token's row. Raises Forbidden for a role of a newer version."""
    token = valid.token
    if token.role not in list(Role):
        raise Forbidden(
            f"Expected a token with the role {', '.join(Role)}, received one with the role "
            f"{token.role!r}, which this version of the server does not know."
        )
    return Principal(token.id, token.name, Role(token.role), token.project, valid.expires_at)

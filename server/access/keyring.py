"""Whom a secret belongs to: asked of the database, and remembered for a moment."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Final, NamedTuple, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from server.access.principal import Principal, Role
from server.access.rate_limit import Limit, RateLimit
from server.errors import Forbidden, TooManyRequests
from store import sessions, tokens
from store.database import Database
from store.tokens import Valid

log = logging.getLogger(__name__)
Value = TypeVar("Value")

FRESH_S: Final = 1.5
"""How long an answer of the database is believed; a revocation elsewhere counts after that."""
KEPT: Final = 10_000
FAILURES: Final = "30/minute"
"""Wrong secrets of an address that are answered 401 and logged; further ones are answered 429."""
SUSPECT_LOOKUPS: Final = 1
"""Queries at one time for all addresses that have sent more wrong secrets than that."""


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
        self._invalid: dict[Credential, float] = {}
        self._suspects = CapacityLimiter(SUSPECT_LOOKUPS)
        self._warnings = RateLimit("1/minute", clock)
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
        """The principal by the database; None: the secret is not valid.

        A valid secret gets in however many wrong ones came from its address. Raises
        TooManyRequests for a wrong one beyond FAILURES.
        """
        principal = await self._ask_once(credential, address)
        if principal is None:
            self.count_failure(address)
        return principal

    async def find(self, credential: Credential, address: str) -> Valid | None:
        """The valid token or session of a secret, by a query; what is known here does not count.

        The queries of addresses that send many wrong secrets wait for each other, and leave the
        threads to everybody else.
        """
        limiter = self._suspects if self._is_suspect(address) else None
        return await anyio.to_thread.run_sync(self._find, credential, limiter=limiter)

    def count_failure(self, address: str) -> None:
        """A wrong secret came from the address. Raises TooManyRequests beyond FAILURES."""
        try:
            self.failures.hit(address)
        except TooManyRequests:
            with suppress(TooManyRequests):
                self._warnings.hit(address)
                log.warning("%s sends many secrets that are not valid, each is refused", address)
            raise

    async def _ask_once(self, credential: Credential, address: str) -> Principal | None:
        """Of many requests with one secret at one time a single one asks."""
        refused_at = self._invalid.get(credential)
        if refused_at is not None and self._clock() < refused_at + FRESH_S:
            return None
        asking = self._asking.get(credential)
        if asking is None:
            asking = asyncio.create_task(self._ask(credential, address))
            self._asking[credential] = asking
            asking.add_done_callback(lambda _: self._asking.pop(credential, None))
        return await asyncio.shield(asking)

    def _is_suspect(self, address: str) -> bool:
        try:
            self.failures.check(address)
        except TooManyRequests:
            return True
        return False

    def forget(self, token_id: str) -> None:
        """The token, or a session of it, was ended: the database is asked about it again."""
        with self._changing:
            self._changes += 1
            for credential, known in list(self._known.items()):
                if known.principal.token_id == token_id:
                    del self._known[credential]

    async def _ask(self, credential: Credential, address: str) -> Principal | None:
        changes, asked_at = self._changes, self._clock()
        found = await self.find(credential, address)
        with self._changing:
            if found is None:
                self._known.pop(credential, None)
                _keep(self._invalid, credential, asked_at)
            elif changes == self._changes:  # otherwise it may have been revoked in between
                ends_at = asked_at + found.left_s
                _keep(self._known, credential, _Known(principal_of(found), asked_at, ends_at))
        return principal_of(found) if found is not None else None

    def _find(self, credential: Credential) -> Valid | None:
        find = sessions.find if credential.kind is Kind.COOKIE else tokens.find
        with self._database.read() as session:
            return find(session, credential.digest)


def _keep(known: dict[Credential, Value], credential: Credential, value: Value) -> None:
    if len(known) >= KEPT:
        known.clear()
    known[credential] = value


def principal_of(valid: Valid) -> Principal:
    """Who may do what, by a token's row. Raises Forbidden for a role of a newer version."""
    token = valid.token
    if token.role not in list(Role):
        raise Forbidden(
            f"Expected a token with the role {', '.join(Role)}, received one with the role "
            f"{token.role!r}, which this version of the server does not know."
        )
    return Principal(token.id, token.name, Role(token.role), token.project, valid.expires_at)

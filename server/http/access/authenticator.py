"""Authenticate secrets: look up their digest in the database, and cache the principal briefly."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Final, NamedTuple, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from ampspec.api.roles import Role
from server.errors import Forbidden, TooManyRequests
from server.http.access.principal import Principal, SignedInPerson
from server.http.access.rate_limit import RateLimit
from store.access import browser_sessions, people, person_sessions, tokens
from store.access.person_sessions import ValidPerson
from store.access.tokens import ValidToken
from store.database import Database

log = logging.getLogger(__name__)
Value = TypeVar("Value")

CACHE_TTL_S: Final = 1.5
"""Lifetime of a cached principal: a revocation by another server takes effect after it."""
CACHE_SIZE: Final = 10_000
FAILURE_RATE: Final = "30/minute"
"""Wrong secrets of an address that get 401 and a log line; further ones get 429."""
MAX_LOOKUPS: Final = 2
"""Concurrent queries for secrets: their threads are never taken by other requests."""
MAX_SUSPECT_LOOKUPS: Final = 1
"""Concurrent queries for all addresses that have sent more wrong secrets than that."""


class CredentialKind(StrEnum):
    """How a secret was sent."""

    TOKEN = "token"  # noqa: S105 - not a secret
    COOKIE = "cookie"
    """Of a browser session of a token."""
    PERSON = "person"
    """The cookie of a person's session."""


class Credential(NamedTuple):
    """The digest of a secret, by which it is looked up, and how it was sent."""

    kind: CredentialKind
    digest: str


@dataclass(frozen=True)
class _CachedPrincipal:
    principal: Principal
    looked_up_at: float
    ends_at: float


class Authenticator:
    """Finds the principal of a secret, with a short cache that never outlives the token."""

    def __init__(
        self,
        database: Database,
        failures: RateLimit,
        clock: Callable[[], float] = time.monotonic,
        *,
        issuer: str | None = None,
    ) -> None:
        """Create an authenticator.

        Args:
            database: Where the secrets are looked up, by their digests.
            failures: The limit of wrong secrets by address.
            clock: Its seconds are those of the cache.
            issuer: The provider whose people have sessions; None: nobody has.
        """
        self.failures = failures
        self._database = database
        self._clock = clock
        self._issuer = issuer
        self._principals: dict[Credential, _CachedPrincipal] = {}
        self._asking: dict[Credential, asyncio.Task[Principal | None]] = {}
        self._invalid: dict[Credential, float] = {}
        self._limiter = CapacityLimiter(MAX_LOOKUPS)
        self._suspect_limiter = CapacityLimiter(MAX_SUSPECT_LOOKUPS)
        self._warnings = RateLimit("1/minute", clock)
        self._changing = Lock()
        self._changes = 0

    def cached_principal(self, credential: Credential, *, grace_s: float = 0.0) -> Principal | None:
        """The cached principal, or None; `grace_s` extends the lifetime of the cache entry.

        An expired token is never returned.
        """
        cache_entry = self._principals.get(credential)
        if cache_entry is None:
            return None
        believed_until = min(cache_entry.looked_up_at + CACHE_TTL_S + grace_s, cache_entry.ends_at)
        return cache_entry.principal if self._clock() < believed_until else None

    async def authenticate(self, credential: Credential, address: str) -> Principal | None:
        """The principal from the database; None if the secret is not valid.

        A valid secret is accepted however many wrong ones its address has sent. Raises
        TooManyRequests for a wrong one above the limit.
        """
        principal = await self._authenticate_once(credential, address)
        if principal is None:
            self.count_failure(address)
        return principal

    async def find(self, credential: Credential, address: str) -> ValidToken | ValidPerson | None:
        """The valid token or session of a secret, without the cache.

        The queries of addresses that send many wrong secrets share a few threads, and leave the
        others free.
        """
        limiter = self._suspect_limiter if self._is_suspect(address) else self._limiter
        return await anyio.to_thread.run_sync(self._find, credential, limiter=limiter)

    def count_failure(self, address: str) -> None:
        """Count a wrong secret of the address. Raises TooManyRequests above the limit."""
        try:
            self.failures.hit(address)
        except TooManyRequests:
            with suppress(TooManyRequests):
                self._warnings.hit(address)
                log.warning("%s sends many invalid tokens; rate limit reached", address)
            raise

    async def _authenticate_once(self, credential: Credential, address: str) -> Principal | None:
        """Of concurrent requests with the same secret, only one queries the database."""
        refused_at = self._invalid.get(credential)
        if refused_at is not None and self._clock() < refused_at + CACHE_TTL_S:
            return None
        asking = self._asking.get(credential)
        if asking is None:
            # An empty context: other requests wait for the same task.
            asking = asyncio.create_task(self._ask(credential, address), context=Context())
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
        """Remove a token and its sessions from the cache, because it or one of them was revoked.

        With the id of a person: its sessions and its tokens.
        """
        with self._changing:
            self._changes += 1
            for credential, cache_entry in list(self._principals.items()):
                if token_id in (cache_entry.principal.token_id, cache_entry.principal.owner_id):
                    del self._principals[credential]

    async def _ask(self, credential: Credential, address: str) -> Principal | None:
        changes, asked_at = self._changes, self._clock()
        valid = await self.find(credential, address)
        principal = principal_of(valid) if valid is not None else None
        with self._changing:
            if valid is None or principal is None:
                self._principals.pop(credential, None)
                _cache_put(self._invalid, credential, asked_at)
            elif changes == self._changes:  # otherwise it may have been revoked in the meantime
                ends_at = asked_at + valid.remaining_s
                _cache_put(
                    self._principals,
                    credential,
                    _CachedPrincipal(principal, asked_at, ends_at),
                )
        return principal

    def _find(self, credential: Credential) -> ValidToken | ValidPerson | None:
        digest = credential.digest
        with self._database.read() as session:
            match credential.kind:
                case CredentialKind.TOKEN:
                    return tokens.find_valid(session, digest)
                case CredentialKind.COOKIE:
                    return browser_sessions.find(session, digest)
            valid = person_sessions.find(session, digest)
        if valid is None or valid.person.issuer != self._issuer:
            return None
        return valid


def _cache_put(cache: dict[Credential, Value], credential: Credential, value: Value) -> None:
    if len(cache) >= CACHE_SIZE:
        cache.clear()
    cache[credential] = value


def principal_of(valid: ValidToken | ValidPerson) -> Principal:
    """The principal of a token or of a person's session."""
    if isinstance(valid, ValidToken):
        return principal_of_token(valid)
    person, grant = valid.person, valid.grant
    signed_in = SignedInPerson(
        person.id, person.name, person.email, valid.session.id, people.grants_of(person)
    )
    return Principal(
        person.id,
        people.display_name(person),
        Role(grant.role),
        grant.project,
        valid.session.expires_at,
        frozenset(grant.scopes),
        owner_id=person.id,
        person=signed_in,
    )


def principal_of_token(valid: ValidToken) -> Principal:
    """The principal of a token's row. Raises Forbidden for a role of a newer version."""
    token = valid.token
    if token.role not in list(Role):
        raise Forbidden(
            f"Expected a token with the role {', '.join(Role)}, received one with the role "
            f"{token.role!r}, which this version of the server does not know."
        )
    name = f"{token.name} ({valid.owner})" if valid.owner is not None else token.name
    return Principal(
        token.id,
        name[:200],
        Role(token.role),
        token.project,
        valid.expires_at,
        frozenset(token.scopes),
        owner_id=token.owner_id,
    )

"""One sign-in: begin it, and finish it when the provider sends the person back."""

import hmac
import logging
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from server.http.access.rate_limit import RateLimit
from server.sign_on.access import grants_for
from server.sign_on.claims import identity_of
from server.sign_on.config import ProviderConfig
from server.sign_on.errors import NoAccess, SignInRefused, SignInStale
from store.access import audit, people, person_sessions, sign_ins
from store.access.audit import Actor
from store.access.people import Identity
from store.access.person_sessions import Browser
from store.database import Database

if TYPE_CHECKING:
    from ampspec.api.roles import Grant
    from server.sign_on.provider import Provider

log = logging.getLogger(__name__)

RATE: Final = "60/minute"
"""Sign-ins that an address may begin or finish."""
MAX_DETAIL: Final = 300


@dataclass(frozen=True)
class BegunSignIn:
    """Where the browser goes, and the secret that it keeps in a cookie until it comes back."""

    address: str
    cookie: str


@dataclass(frozen=True)
class Callback:
    """What the provider sends a person back with."""

    state: str
    code: str
    error: str
    error_description: str
    issuer: str


class SignOn:
    """Sign-on with one provider."""

    def __init__(self, config: ProviderConfig, database: Database) -> None:
        self.config = config
        self.limit = RateLimit(RATE)
        self._database = database
        self._provider: Provider | None = None

    @property
    def provider(self) -> "Provider":
        """The provider; its libraries are imported when somebody signs in."""
        if self._provider is None:
            from server.sign_on.provider import Provider

            self._provider = Provider(self.config)
        return self._provider

    async def begin(self, return_to: str) -> BegunSignIn:
        """Begin a sign-in that ends at `return_to`. Raises ProviderFailed."""
        state, cookie = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        address = await self.provider.authorization_url(
            state=state,
            nonce=_derive(cookie, "nonce", state),
            verifier=_derive(cookie, "verifier", state),
        )

        def store() -> None:
            with self._database.write() as session:
                sign_ins.begin(session, state=state, browser=cookie, return_to=return_to)

        await anyio.to_thread.run_sync(store)
        return BegunSignIn(address, cookie)

    async def take(self, callback: Callback, cookie: str) -> str:
        """Where the person wanted to go. Raises SignInStale for what no sign-in here awaits."""

        def take() -> str | None:
            with self._database.write() as session:
                return sign_ins.take(session, state=callback.state, browser=cookie)

        return_to = await anyio.to_thread.run_sync(take) if callback.state else None
        if return_to is None:
            raise SignInStale(
                "This sign-in was not begun in this browser, is older than ten minutes, or was "
                "used already. Sign in again.",
                "a callback has a state that is unknown, expired, used, or of another browser",
            )
        return return_to

    async def identify(
        self, callback: Callback, cookie: str
    ) -> tuple[Identity, "tuple[Grant, ...]"]:
        """Who has signed in, and what it may do. Raises SignInFailed."""
        issuer = self.config.issuer
        if callback.issuer and callback.issuer != issuer:
            raise SignInRefused(
                "The answer is from another provider. Sign in again.",
                f"a callback has iss {callback.issuer[:MAX_DETAIL]!r}, expected {issuer!r}",
            )
        if callback.error or not callback.code:
            raise _refusal(callback)
        state = callback.state
        claims = await self.provider.claims(
            code=callback.code,
            nonce=_derive(cookie, "nonce", state),
            verifier=_derive(cookie, "verifier", state),
        )
        identity = identity_of(claims, self.config)
        try:
            return identity, grants_for(identity, claims, self.config)
        except NoAccess as error:
            error.person_id = await anyio.to_thread.run_sync(self._end_access, identity)
            raise

    def open_session(
        self,
        identity: Identity,
        grants: "tuple[Grant, ...]",
        browser: Browser,
        request_id: str | None,
    ) -> tuple[str, str]:
        """Record the sign-in and open a session.

        Args:
            identity: Who has signed in.
            grants: What the person may do; at least one.
            browser: Where the session is.
            request_id: For the audit log.

        Returns:
            The id of the person, and the secret for the cookie.
        """
        with self._database.write() as session:
            person = people.sign_in(session, identity, grants, access_s=self.config.access_s)
            cookie, _ = person_sessions.create(session, person, browser, self.config.lifetime)
            name = people.display_name(person)
            actor = Actor(grants[0].project, person.id, name, browser.address, request_id)
            audit.record(session, actor, "session.create", groups=list(identity.groups)[:50])
            return person.id, cookie

    def _end_access(self, identity: Identity) -> str | None:
        with self._database.write() as session:
            return people.refuse(session, identity)


def _refusal(callback: Callback) -> SignInRefused:
    """The error for a provider that has not let the person in."""
    error, description = callback.error[:100], callback.error_description[:MAX_DETAIL]
    if error == "access_denied":
        message = "You have not been let in: the sign-in was cancelled, or the provider refused it."
    elif error:
        message = f"The provider has not let you in: {error}."
    else:
        message = "The provider has sent neither a code nor an error. Sign in again."
    return SignInRefused(message, f"the provider answers {error or 'nothing'!r}: {description!r}")


def _derive(cookie: str, purpose: str, state: str) -> str:
    """A secret of one sign-in that only the browser's cookie leads to; nothing has to be stored."""
    digest = hmac.digest(cookie.encode(), f"{purpose} {state}".encode(), sha256)
    return urlsafe_b64encode(digest).decode().rstrip("=")

"""Sign-ins that were sent to the provider: each comes back once, to the browser that began it."""

from typing import Final

from sqlalchemy import delete
from sqlalchemy.orm import Session

from store.access.tokens import digest_of
from store.clock import from_now, now
from store.tables import SignIn

LIFETIME_S: Final = 600.0
"""The time to enter a password and a second factor."""


def begin(session: Session, *, state: str, browser: str, return_to: str) -> None:
    """Record a sign-in by its secrets, which are not stored; delete those that never came back."""
    delete_expired(session)
    session.add(
        SignIn(
            state=digest_of(state),
            browser=digest_of(browser),
            return_to=return_to,
            expires_at=from_now(LIFETIME_S),
        )
    )
    session.flush()


def take(session: Session, *, state: str, browser: str) -> str | None:
    """Where the person wanted to go; None if no such sign-in of this browser is awaited.

    The state cannot be used again, also if another browser sent it.
    """
    row = session.execute(
        delete(SignIn)
        .where(SignIn.state == digest_of(state), now() < SignIn.expires_at)
        .returning(SignIn.browser, SignIn.return_to)
    ).one_or_none()
    if row is None or row.browser != digest_of(browser):
        return None
    return str(row.return_to)


def delete_expired(session: Session) -> None:
    """Delete sign-ins that have not come back."""
    session.execute(
        delete(SignIn).where(SignIn.expires_at < now()).execution_options(synchronize_session=False)
    )

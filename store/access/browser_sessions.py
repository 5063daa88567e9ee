"""Browser sessions: each has a secret cookie, stored as a hash, and belongs to a token."""

import secrets
from datetime import datetime
from typing import Final

from sqlalchemy import case, delete, literal, select
from sqlalchemy.orm import Session

from store.access.tokens import ValidToken, digest_of, is_valid, owner_of
from store.clock import UtcDateTime, from_now, now, seconds_since
from store.tables import BrowserSession, Token

LIFETIME_S: Final = 12 * 3600.0
"""A working day, so that users sign in once a day."""


def delete_expired(session: Session) -> None:
    """Delete expired sessions."""
    session.execute(
        delete(BrowserSession)
        .where(BrowserSession.expires_at < now())
        .execution_options(synchronize_session=False)
    )


def create(session: Session, token: Token) -> tuple[str, datetime]:
    """Open a session; returns its secret, which is not stored, and when it expires.

    It ends after LIFETIME_S, or with its token.
    """
    secret = secrets.token_urlsafe(32)
    ends, token_ends = from_now(LIFETIME_S), literal(token.expires_at, UtcDateTime())
    row = BrowserSession(
        digest=digest_of(secret),
        token_id=token.id,
        expires_at=case((token_ends < ends, token_ends), else_=ends),
    )
    session.add(row)
    session.flush()
    return secret, row.expires_at


def find(session: Session, digest: str) -> ValidToken | None:
    """The token of the session with that digest; None if session or token is not valid."""
    ends = BrowserSession.expires_at
    row = session.execute(
        select(Token, ends, seconds_since(now(), until=ends))
        .join(BrowserSession, BrowserSession.token_id == Token.id)
        .where(BrowserSession.digest == digest, ends > now(), is_valid())
    ).one_or_none()
    if row is None:
        return None
    return ValidToken(row[0], row[1], float(row[2]), owner_of(session, row[0]))


def remove(session: Session, digest: str) -> bool:
    """End the session with that digest; False if there is none."""
    statement = delete(BrowserSession).where(BrowserSession.digest == digest)
    returning = statement.returning(BrowserSession.token_id)
    return session.scalars(returning).one_or_none() is not None

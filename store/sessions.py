"""Browsers that have signed in with a token: each holds a secret of its own, kept as a hash."""

import secrets
from datetime import datetime
from typing import Final

from sqlalchemy import case, delete, literal, select
from sqlalchemy.orm import Session

from store.clock import Instant, after, now, seconds_since
from store.tables import BrowserSession, Token
from store.tokens import Valid, digest_of, is_valid

LASTS_S: Final = 12 * 3600.0
"""A working day; whoever comes back the next morning signs in again."""


def forget_expired(session: Session) -> None:
    """Delete the sessions that have ended."""
    session.execute(
        delete(BrowserSession)
        .where(BrowserSession.expires_at < now())
        .execution_options(synchronize_session=False)
    )


def create(session: Session, token: Token) -> tuple[str, datetime]:
    """Open a session; returns its secret, which cannot be read again, and when it ends.

    It ends after LASTS_S, or with its token.
    """
    secret = secrets.token_urlsafe(32)
    ends, token_ends = after(LASTS_S), literal(token.expires_at, Instant())
    row = BrowserSession(
        digest=digest_of(secret),
        token_id=token.id,
        expires_at=case((token_ends < ends, token_ends), else_=ends),
    )
    session.add(row)
    session.flush()
    return secret, row.expires_at


def find(session: Session, digest: str) -> Valid | None:
    """The session with that digest of its secret; None when it or its token is not valid now."""
    ends = BrowserSession.expires_at
    row = session.execute(
        select(Token, ends, seconds_since(now(), until=ends))
        .join(BrowserSession, BrowserSession.token_id == Token.id)
        .where(BrowserSession.digest == digest, ends > now(), is_valid())
    ).one_or_none()
    return Valid(row[0], row[1], float(row[2])) if row is not None else None


def remove(session: Session, digest: str) -> bool:
    """End the session with that digest of its secret; False when there is none."""
    statement = delete(BrowserSession).where(BrowserSession.digest == digest)
    returning = statement.returning(BrowserSession.token_id)
    return session.scalars(returning).one_or_none() is not None

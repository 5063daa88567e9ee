"""Bearer tokens: made once, kept as a hash."""

import secrets
from hashlib import sha256

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.tables import Token

PREFIX = "amp_"


def create(session: Session, name: str) -> str:
    """Make a token and return its secret, which cannot be read again."""
    secret = PREFIX + secrets.token_urlsafe(32)
    ensure(session, name, secret)
    return secret


def ensure(session: Session, name: str, secret: str) -> None:
    """Make sure that `secret` opens the door."""
    if verify(session, secret) is None:
        session.add(Token(name=name, digest=_digest(secret)))
        session.flush()


def verify(session: Session, secret: str) -> Token | None:
    """The token that the secret belongs to."""
    # 256 random bits need no slow hash, and looking up their digest gives no timing away.
    return session.scalars(select(Token).where(Token.digest == _digest(secret))).one_or_none()


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()

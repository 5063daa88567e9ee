"""Tokens: made once, kept as a hash, and as a row for the audit when they are valid no more."""

import hmac
import math
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from store import projects
from store.clock import now, seconds_since
from store.tables import Token, new_id

PREFIX: Final = "amp_"
ADMIN: Final = "admin"
MEMBER: Final = "member"


class LastAdmin(Exception):
    """Without this token nobody could make another one."""


class Revoked(Exception):
    """The secret was a token's that is revoked; it must not open anything again."""


@dataclass(frozen=True)
class Valid:
    """Whose secret it is, and how long it is valid unless it is revoked."""

    token: Token
    expires_at: datetime | None
    left_s: float
    """Until then, by the database's clock; infinite where `expires_at` is None."""


def create(
    session: Session,
    name: str,
    *,
    role: str = MEMBER,
    project: str = projects.DEFAULT,
    expires_at: datetime | None = None,
    created_by: str | None = None,
    secret_of: Callable[[str], str] | None = None,
) -> str:
    """Make a token and return its secret, which cannot be read again.

    Its project is made with it where there is none of that name. The secret is random, or what
    `secret_of` makes of the token's id.
    """
    token_id = new_id()
    secret = secret_of(token_id) if secret_of else PREFIX + secrets.token_urlsafe(32)
    values = {"role": role, "expires_at": expires_at, "created_by": created_by}
    _add(session, secret, project, id=token_id, name=name, **values)
    return secret


def derived_secret(token_id: str, *, key: str, maker: str) -> str:
    """A token's secret that whoever made it can be told again, and nobody else can find out.

    It follows from the secret of the `maker`, which is stored nowhere, and the key of the request.
    """
    message = f"{key} {token_id}".encode()
    digest = hmac.digest(maker.encode("utf-8", "surrogatepass"), message, sha256)
    return PREFIX + urlsafe_b64encode(digest).decode().rstrip("=")


def ensure(session: Session, name: str, secret: str) -> None:
    """Make sure that `secret` opens every door. Raises Revoked."""
    known = of_secret(session, secret)
    if known is None:
        _add(session, secret, projects.DEFAULT, name=name, role=ADMIN)
    elif known.revoked_at is not None:
        raise Revoked(f"The token {known.id} was revoked.")


def find(session: Session, digest: str) -> Valid | None:
    """The valid token with that digest of its secret."""
    # 256 random bits need no slow hash, and looking up their digest gives no timing away.
    left_s = seconds_since(now(), until=Token.expires_at)
    row = session.execute(
        select(Token, left_s).where(Token.digest == digest, is_valid())
    ).one_or_none()
    if row is None:
        return None
    token, left = row
    return Valid(token, token.expires_at, math.inf if left is None else float(left))


def of_secret(session: Session, secret: str) -> Token | None:
    """The token that was made with the secret, whether it is still valid or not."""
    return session.scalars(select(Token).where(Token.digest == digest_of(secret))).one_or_none()


def is_valid() -> ColumnElement[bool]:
    """That a token is neither revoked nor expired."""
    return and_(
        Token.revoked_at.is_(None), or_(Token.expires_at.is_(None), now() < Token.expires_at)
    )


def any_valid(session: Session) -> bool:
    """Whether anybody can come in at all."""
    return session.scalar(select(Token.id).where(is_valid()).limit(1)) is not None


def revoke(session: Session, token: Token) -> bool:
    """Make a token open nothing any more; False: it was revoked before. Raises LastAdmin.

    Its row stays for the audit.
    """
    # Locked in one order: of two admins that revoke each other at one time the second one fails.
    admins = session.scalars(
        select(Token).where(Token.role == ADMIN, is_valid()).order_by(Token.id).with_for_update()
    ).all()
    session.refresh(token)
    if token.revoked_at is not None:
        return False
    if [admin.id for admin in admins] == [token.id]:
        raise LastAdmin(f"{token.id!r} is the last valid admin token; make another one first.")
    token.revoked_at = now()
    session.flush()
    return True


def get(session: Session, token_id: str) -> Token | None:
    """The token of that id, whether it is valid or not."""
    return session.get(Token, token_id, populate_existing=True)


def listing(session: Session) -> Sequence[Token]:
    """Every token there ever was, the newest first."""
    return session.scalars(select(Token).order_by(Token.created_at.desc(), Token.id)).all()


def digest_of(secret: str) -> str:
    """What is kept of a secret."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _add(session: Session, secret: str, project: str, **values: Any) -> None:
    projects.ensure(session, project)
    session.add(Token(digest=digest_of(secret), project=project, **values))
    session.flush()

"""Access tokens: only their hash is stored; rows of revoked ones are kept for the audit log."""

import hmac
import math
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, exists, literal, or_, select, tuple_, update
from sqlalchemy.orm import Session

from store.access import people, projects
from store.clock import UtcDateTime, from_now, now, seconds_since
from store.tables import BrowserSession, FormerSecret, Person, Token, new_id

SECRET_PREFIX: Final = "amp_"  # noqa: S105 - only the common prefix of secrets
ADMIN: Final = "admin"
MEMBER: Final = "member"


class LastAdminToken(Exception):
    """The last valid admin token that is no person's cannot be revoked.

    No other admin could create a new one.
    """


class TokenRevoked(Exception):
    """The secret belongs to a revoked token and must not become valid again."""


@dataclass(frozen=True)
class ValidToken:
    """A valid token, and how long it stays valid unless it is revoked."""

    token: Token
    expires_at: datetime | None
    remaining_s: float
    """Seconds until it expires, by the database's clock; infinite if `expires_at` is None."""
    owner: str | None = None
    """The e-mail address or name of the person whose token it is."""


def create(
    session: Session,
    name: str,
    *,
    role: str = MEMBER,
    scopes: Sequence[str] = (),
    project: str = projects.DEFAULT_PROJECT,
    expires_at: datetime | None = None,
    created_by: str | None = None,
    owner_id: str | None = None,
    secret_of: Callable[[str], str] | None = None,
) -> str:
    """Create a token and return its secret, which is not stored.

    The project is created if it does not exist. The secret is random, or what `secret_of` returns
    for the token's id.
    """
    token_id = new_id()
    secret = secret_of(token_id) if secret_of else SECRET_PREFIX + secrets.token_urlsafe(32)
    values = {
        "role": role,
        "scopes": list(scopes),
        "expires_at": expires_at,
        "created_by": created_by,
        "owner_id": owner_id,
    }
    _insert(session, secret, project, id=token_id, name=name, **values)
    return secret


def derive_secret(token_id: str, *, key: str, creator_secret: str) -> str:
    """A token's secret that can be returned again to its creator, and that no one else can derive.

    It is derived from the creator's secret, which is not stored, and the request's key.
    """
    message = f"{key} {token_id}".encode()
    digest = hmac.digest(creator_secret.encode("utf-8", "surrogatepass"), message, sha256)
    return SECRET_PREFIX + urlsafe_b64encode(digest).decode().rstrip("=")


def ensure_admin(session: Session, name: str, secret: str) -> None:
    """Make `secret` a valid admin token. Raises TokenRevoked."""
    token = get_by_secret(session, secret)
    if token is None and session.get(FormerSecret, digest_of(secret)) is not None:
        raise TokenRevoked("The token was rotated, and this is a secret that it had before.")
    if token is None:
        _insert(session, secret, projects.DEFAULT_PROJECT, name=name, role=ADMIN)
    elif token.revoked_at is not None:
        raise TokenRevoked(f"The token {token.id} was revoked.")


def find_valid(session: Session, digest: str) -> ValidToken | None:
    """The valid token with that digest, or None."""
    # 256 random bits need no slow hash, and a lookup by digest leaks nothing through timing.
    lifetime_s = seconds_since(now(), until=Token.expires_at)
    row = session.execute(
        select(Token, lifetime_s).where(Token.digest == digest, is_valid())
    ).one_or_none()
    if row is None:
        return _find_by_former_secret(session, digest)
    token, remaining_s = row
    remaining_s = math.inf if remaining_s is None else float(remaining_s)
    return ValidToken(token, token.expires_at, remaining_s, owner_of(session, token))


def _find_by_former_secret(session: Session, digest: str) -> ValidToken | None:
    """The valid token that had this secret before it was rotated, within the time of grace."""
    until = FormerSecret.valid_until
    ends = case((Token.expires_at < until, Token.expires_at), else_=until)
    row = session.execute(
        select(Token, ends, seconds_since(now(), until=ends))
        .join(FormerSecret, FormerSecret.token_id == Token.id)
        .where(FormerSecret.digest == digest, now() < until, is_valid())
    ).one_or_none()
    if row is None:
        return None
    return ValidToken(row[0], row[1], float(row[2]), owner_of(session, row[0]))


def owner_of(session: Session, token: Token) -> str | None:
    """The e-mail address or name of the person whose token it is; None if it is nobody's."""
    owner = session.get(Person, token.owner_id) if token.owner_id is not None else None
    return people.display_name(owner) if owner is not None else None


def rotate(
    session: Session,
    token: Token,
    grace_s: float,
    *,
    secret_of: Callable[[str], str] | None = None,
) -> str:
    """Give a valid token another secret, and return it.

    The secret before, and the browser sessions that were opened with it, end after `grace_s`.

    Args:
        session: The session.
        token: The token.
        grace_s: In seconds; 0 ends them at once.
        secret_of: Returns the secret for the token's id; by default it is random.

    Raises:
        TokenRevoked: It is revoked or has expired.
    """
    session.refresh(token, with_for_update=True)
    if session.scalar(select(Token.id).where(Token.id == token.id, is_valid())) is None:
        raise TokenRevoked(
            f"The token {token.id!r} is revoked or has expired: create another one instead."
        )
    secret = secret_of(token.id) if secret_of else SECRET_PREFIX + secrets.token_urlsafe(32)
    ends = from_now(grace_s)
    for table, moment in (
        (FormerSecret, FormerSecret.valid_until),
        (BrowserSession, BrowserSession.expires_at),
    ):
        session.execute(
            update(table)
            .where(table.token_id == token.id, moment > ends)
            .values({moment: ends})
            .execution_options(synchronize_session=False)
        )
    session.add(FormerSecret(digest=token.digest, token_id=token.id, valid_until=ends))
    token.digest = digest_of(secret)
    session.flush()
    return secret


def get_by_secret(session: Session, secret: str) -> Token | None:
    """The token with that secret, valid or not; None if there is none."""
    return session.scalars(select(Token).where(Token.digest == digest_of(secret))).one_or_none()


def is_valid() -> ColumnElement[bool]:
    """SQL condition: a token is neither revoked nor expired, and its owner has access."""
    has_access = exists().where(Person.id == Token.owner_id, Person.access_until > now())
    return and_(
        Token.revoked_at.is_(None),
        or_(Token.expires_at.is_(None), now() < Token.expires_at),
        or_(Token.owner_id.is_(None), has_access),
    )


def any_valid(session: Session) -> bool:
    """Whether there is any valid token."""
    return session.scalar(select(Token.id).where(is_valid()).limit(1)) is not None


def revoke(session: Session, token: Token) -> bool:
    """Revoke a token; False if it was revoked before. Raises LastAdminToken.

    Its row is kept for the audit log.
    """
    # Locked in a fixed order: of two admins that revoke each other at once, the second one fails.
    admins = session.scalars(
        select(Token)
        .where(Token.role == ADMIN, Token.owner_id.is_(None), is_valid())
        .order_by(Token.id)
        .with_for_update()
    ).all()
    session.refresh(token)
    if token.revoked_at is not None:
        return False
    if [admin.id for admin in admins] == [token.id]:
        raise LastAdminToken(
            f"{token.id!r} is the last valid admin token; create another one first."
        )
    token.revoked_at = now()
    session.flush()
    return True


def get(session: Session, token_id: str) -> Token | None:
    """The token with that id, valid or not; None if there is none."""
    return session.get(Token, token_id, populate_existing=True)


def has_scope(session: Session, token_id: str | None, scope: str) -> bool:
    """Whether the token is valid now, and has the scope; an admin has every one."""
    statement = select(Token).where(Token.id == token_id, is_valid())
    token = session.scalars(statement).one_or_none()
    return token is not None and (token.role == ADMIN or scope in token.scopes)


def listing(
    session: Session,
    *,
    project: str | None = None,
    owner_id: str | None = None,
    after_token: tuple[datetime, str] | None = None,
    limit: int | None = None,
) -> Sequence[Token]:
    """The tokens, also revoked ones, the newest first.

    Args:
        session: The session.
        project: Only those of this project, without those of admins, who have all projects.
        owner_id: With `project` also those of this person in other projects, alone only those.
        after_token: When the last token of the page before was created, and its id.
        limit: The maximum number; None for all.

    Returns:
        Their rows.
    """
    statement = select(Token).order_by(Token.created_at.desc(), Token.id.desc())
    in_project = and_(Token.project == project, Token.role != ADMIN)
    if owner_id is not None:
        is_owned = Token.owner_id == owner_id
        statement = statement.where(is_owned if project is None else or_(is_owned, in_project))
    elif project is not None:
        statement = statement.where(in_project)
    if after_token is not None:
        created_at, token_id = after_token
        last = tuple_(literal(created_at, UtcDateTime()), literal(token_id))
        statement = statement.where(tuple_(Token.created_at, Token.id) < last)
    return session.scalars(statement.limit(limit)).all()


def digest_of(secret: str) -> str:
    """The SHA-256 of a secret, which is stored in its place."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _insert(session: Session, secret: str, project: str, **values: Any) -> None:
    projects.ensure(session, project)
    session.add(Token(digest=digest_of(secret), project=project, **values))
    session.flush()

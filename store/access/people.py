"""People who sign in with a provider: what their groups allow, and until when."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, literal, select, tuple_, update
from sqlalchemy.orm import Session

from ampspec.api.roles import Grant, Role
from store.access import projects
from store.clock import UtcDateTime, from_now, now
from store.rows import insert_if_absent
from store.tables import Person, PersonSession, Token


@dataclass(frozen=True)
class Identity:
    """What the provider says about a person."""

    issuer: str
    subject: str
    name: str
    email: str | None
    groups: tuple[str, ...]


def grants_of(person: Person) -> tuple[Grant, ...]:
    """What the person may do, as of the last sign-in."""
    return tuple(
        Grant(row["project"], row["role"], tuple(row["scopes"])) for row in person.grants or ()
    )


def sign_in(
    session: Session, identity: Identity, grants: Sequence[Grant], *, access_s: float
) -> Person:
    """Record a sign-in: the person is created, or gets these grants instead of the former ones.

    Tokens of the person that allow more than the grants are revoked. The projects are created if
    they do not exist.

    Args:
        session: The session.
        identity: What the provider says.
        grants: What the groups allow; at least one.
        access_s: How long tokens and studies of the person are valid after this, in seconds.

    Returns:
        The row of the person.
    """
    key = {"issuer": identity.issuer, "subject": identity.subject}
    values: dict[str, Any] = {
        "name": identity.name,
        "email": identity.email,
        "groups": list(identity.groups),
        "grants": [asdict(grant) | {"scopes": list(grant.scopes)} for grant in grants],
        "signed_in_at": now(),
        "access_until": from_now(access_s),
    }
    for grant in grants:
        projects.ensure(session, grant.project)
    session.execute(insert_if_absent(session, Person, **key, **values))
    person = session.scalars(select(Person).filter_by(**key).with_for_update()).one()
    for name, value in values.items():
        setattr(person, name, value)
    session.flush()
    session.refresh(person)
    by_project = {grant.project: grant for grant in grants}
    is_admin = any(grant.role == Role.ADMIN for grant in grants)
    owned = select(Token).where(Token.owner_id == person.id, Token.revoked_at.is_(None))
    for token in session.scalars(owned):
        allowed = by_project.get(token.project)
        if not is_admin and (allowed is None or not allowed.allows(token.role, token.scopes)):
            token.revoked_at = now()
    session.flush()
    return person


def end_access(session: Session, person_id: str) -> bool:
    """End the sessions, tokens and studies of a person until the next sign-in; False: no such."""
    person = session.get(Person, person_id, with_for_update=True)
    if person is None:
        return False
    person.access_until = now()
    without_objects = {"synchronize_session": False}
    sessions = delete(PersonSession).where(PersonSession.person_id == person_id)
    session.execute(sessions, execution_options=without_objects)
    owned = update(Token).where(Token.owner_id == person_id, Token.revoked_at.is_(None))
    session.execute(owned.values(revoked_at=now()), execution_options=without_objects)
    session.flush()
    return True


def refuse(session: Session, identity: Identity) -> str | None:
    """End the access of a person whose groups allow nothing any more.

    Args:
        session: The session.
        identity: What the provider says.

    Returns:
        The id of the person; None if it has never had access.
    """
    key = {"issuer": identity.issuer, "subject": identity.subject}
    person = session.scalars(select(Person).filter_by(**key)).one_or_none()
    if person is not None:
        person.groups, person.grants = list(identity.groups), []
        session.flush()
        end_access(session, person.id)
    return None if person is None else person.id


def has_scope(session: Session, person_id: str | None, project: str, scope: str) -> bool:
    """Whether a person has the scope in the project now, by the last sign-in."""
    statement = select(Person).where(Person.id == person_id, Person.access_until > now())
    person = session.scalars(statement).one_or_none()
    return person is not None and any(
        grant.role == Role.ADMIN or (grant.project == project and scope in grant.scopes)
        for grant in grants_of(person)
    )


def listing(
    session: Session, *, after_person: tuple[datetime, str] | None = None, limit: int | None = None
) -> Sequence[Person]:
    """The people, those who signed in first at the end.

    Args:
        session: The session.
        after_person: When the last person of the page before was created, and its id.
        limit: The maximum number; None for all.

    Returns:
        Their rows.
    """
    statement = select(Person).order_by(Person.created_at.desc(), Person.id.desc())
    if after_person is not None:
        created_at, person_id = after_person
        last = tuple_(literal(created_at, UtcDateTime()), literal(person_id))
        statement = statement.where(tuple_(Person.created_at, Person.id) < last)
    return session.scalars(statement.limit(limit)).all()


def names(session: Session, ids: Collection[str | None]) -> Mapping[str, str]:
    """By id: the e-mail address of a person, or the name."""
    statement = select(Person).where(Person.id.in_([name for name in ids if name is not None]))
    return {person.id: display_name(person) for person in session.scalars(statement)}


def display_name(person: Person) -> str:
    """The e-mail address, or else the name."""
    return (person.email or person.name)[:200]

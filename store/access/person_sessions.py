"""Browser sessions of people: they end without activity, and at the latest after a time.

A request is no activity: an open page sends requests while nobody is there.
"""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, delete, select, update
from sqlalchemy.orm import Session

from ampspec.api.roles import Grant
from store.access.people import grants_of
from store.access.tokens import digest_of
from store.clock import from_now, now, seconds_since
from store.tables import Person, PersonSession


@dataclass(frozen=True)
class ValidPerson:
    """A person with a valid session, and how long it lasts unless it is used or ended."""

    person: Person
    session: PersonSession
    grant: Grant
    """What the person may do in the project that is open."""
    remaining_s: float


@dataclass(frozen=True)
class Lifetime:
    """How long sessions last, in seconds."""

    idle_s: float
    """Without activity of the person."""
    longest_s: float


@dataclass(frozen=True)
class Browser:
    """The browser that has a session."""

    address: str | None
    user_agent: str | None


def create(
    session: Session, person: Person, browser: Browser, lifetime: Lifetime
) -> tuple[str, PersonSession]:
    """Open a session; returns its secret, which is not stored, and its row."""
    secret = secrets.token_urlsafe(32)
    row = PersonSession(
        digest=digest_of(secret),
        person_id=person.id,
        address=browser.address,
        user_agent=browser.user_agent,
        idle_s=lifetime.idle_s,
        expires_at=from_now(lifetime.longest_s),
    )
    session.add(row)
    session.flush()
    session.refresh(row)
    return secret, row


def find(session: Session, digest: str) -> ValidPerson | None:
    """The person of the session with that digest; None if it has ended."""
    longest_s = seconds_since(now(), until=PersonSession.expires_at)
    unused_s = seconds_since(PersonSession.used_at)
    row = session.execute(
        select(PersonSession, Person, longest_s, unused_s)
        .join(Person, Person.id == PersonSession.person_id)
        .where(PersonSession.digest == digest, _is_open())
    ).one_or_none()
    if row is None:
        return None
    browser_session, person, longest, unused = row
    grant = _open_grant(browser_session.project, grants_of(person))
    if grant is None:
        return None
    remaining_s = min(longest, browser_session.idle_s - unused)
    return ValidPerson(person, browser_session, grant, float(remaining_s))


def _open_grant(project: str | None, grants: Sequence[Grant]) -> Grant | None:
    """What is allowed in this project, or in the first one if it is allowed no more."""
    by_project = {grant.project: grant for grant in grants}
    return by_project.get(project or "", grants[0] if grants else None)


def record_activity(session: Session, session_id: str) -> None:
    """Record that the person is using the session."""
    session.execute(
        update(PersonSession)
        .where(PersonSession.id == session_id)
        .values(used_at=now())
        .execution_options(synchronize_session=False)
    )


def open_project(session: Session, session_id: str, project: str) -> None:
    """Have the session open a project, of those that the person has."""
    row = session.get_one(PersonSession, session_id)
    row.project = project
    session.flush()


def remove(session: Session, digest: str) -> bool:
    """End the session with that digest; False if there is none."""
    return _remove(session, PersonSession.digest == digest)


def remove_of_person(session: Session, person_id: str, session_id: str) -> bool:
    """End a session by its id; False if the person has no such session."""
    return _remove(session, PersonSession.person_id == person_id, PersonSession.id == session_id)


def of_people(session: Session, ids: Collection[str]) -> Sequence[PersonSession]:
    """The open sessions of these people, the newest first."""
    statement = select(PersonSession).where(PersonSession.person_id.in_(ids), _is_open())
    return session.scalars(statement.order_by(PersonSession.created_at.desc())).all()


def delete_ended(session: Session) -> None:
    """Delete sessions that have ended."""
    session.execute(
        delete(PersonSession).where(~_is_open()).execution_options(synchronize_session=False)
    )


def ends_at(row: PersonSession) -> datetime:
    """When the session ends, unless it is used before."""
    return min(row.expires_at, row.used_at + timedelta(seconds=row.idle_s))


def _is_open() -> Any:
    """SQL condition: the session has been used lately, and is not too old."""
    unused_s = seconds_since(PersonSession.used_at)
    return and_(now() < PersonSession.expires_at, unused_s < PersonSession.idle_s)


def _remove(session: Session, *conditions: Any) -> bool:
    statement = delete(PersonSession).where(*conditions).returning(PersonSession.id)
    return session.scalars(statement).one_or_none() is not None

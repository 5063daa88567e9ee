"""List the people who have signed in with the provider, and end their sessions and access."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Path, Response
from sqlalchemy.orm import Session

from ampspec.api.people import Person, PersonList, PersonSession
from ampspec.api.session import ProjectGrant
from server.deps import ActorDep, AdminDep, AuthenticatorDep, DatabaseDep
from server.documentation.openapi import problems
from server.errors import NotFound
from server.http.newest_first import (
    Cursor,
    Limit,
    cursor_of,
    page_of,
    read_cursor,
    rows_to_read,
)
from server.http.responses import to_response
from server.http.router import api_router
from server.idempotency import IdempotentRequestDep, respond_once
from store import tables
from store.access import audit, people, person_sessions
from store.access.idempotency import StoredResponse

router = api_router("/people", tags=["access"])

Id = Annotated[str, Path(description="The person's id.", max_length=32, pattern="^[0-9a-f]+$")]
SessionId = Annotated[
    str, Path(description="The session's id.", max_length=32, pattern="^[0-9a-f]+$")
]


@router.get("", summary="List people", responses=problems(403))
def listing(
    _admin: AdminDep, database: DatabaseDep, limit: Limit = None, cursor: Cursor = None
) -> PersonList:
    """List those who have signed in with the provider, newest first, with their open sessions."""
    with database.read() as session:
        rows, has_more = page_of(
            people.listing(session, after_person=read_cursor(cursor), limit=rows_to_read(limit)),
            limit,
        )
        items = _with_sessions(session, rows)
    next_cursor = cursor_of(items[-1].created_at, items[-1].id) if has_more else None
    return PersonList(items=items, next_cursor=next_cursor)


@router.delete(
    "/{person_id}",
    summary="End a person's access",
    status_code=204,
    response_class=Response,
    responses=problems(403, 404),
)
def end_access(
    *,
    person_id: Id,
    _admin: AdminDep,
    actor: ActorDep,
    database: DatabaseDep,
    authenticator: AuthenticatorDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """End the sessions of a person and revoke its tokens. It can sign in again if it may."""

    def make(session: Session) -> StoredResponse:
        if not people.end_access(session, person_id):
            raise NotFound(f"There is no person {person_id!r}.")
        audit.record(session, actor, "person.end_access", person_id)
        return StoredResponse(204, {}, "")

    try:
        return to_response(respond_once(database, idempotent_request, make))
    finally:
        authenticator.forget(person_id)  # after the commit, also if its response was lost


@router.delete(
    "/{person_id}/sessions/{session_id}",
    summary="End a session of a person",
    status_code=204,
    response_class=Response,
    responses=problems(403, 404),
)
def end_session(
    *,
    person_id: Id,
    session_id: SessionId,
    _admin: AdminDep,
    actor: ActorDep,
    database: DatabaseDep,
    authenticator: AuthenticatorDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Sign a person out of one browser."""

    def make(session: Session) -> StoredResponse:
        if not person_sessions.remove_of_person(session, person_id, session_id):
            raise NotFound(f"The person {person_id!r} has no session {session_id!r}.")
        audit.record(session, actor, "person.end_session", person_id, session_id=session_id)
        return StoredResponse(204, {}, "")

    try:
        return to_response(respond_once(database, idempotent_request, make))
    finally:
        authenticator.forget(person_id)


def _with_sessions(session: Session, rows: Sequence[tables.Person]) -> list[Person]:
    """The people, each with its open sessions."""
    by_person: dict[str, list[PersonSession]] = {row.id: [] for row in rows}
    for browser in person_sessions.of_people(session, list(by_person)):
        values = {"ends_at": person_sessions.ends_at(browser), **vars(browser)}
        by_person[browser.person_id].append(PersonSession.model_validate(values))
    return [
        Person.model_validate(
            {
                **vars(row),
                "grants": [ProjectGrant.model_validate(grant) for grant in row.grants],
                "sessions": by_person[row.id],
            }
        )
        for row in rows
    ]

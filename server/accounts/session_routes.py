"""Browser sessions: sign in, sign out, and read the current principal."""

from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Depends, Request, Response
from sqlalchemy.orm import Session as DatabaseSession

from ampspec.api.roles import Role
from ampspec.api.session import Session, SessionChanges
from ampspec.jobs import Problem
from server.deps import AuthenticatorDep, DatabaseDep, PrincipalDep, actor_of
from server.documentation.openapi import problems
from server.errors import Forbidden, NotFound, RequestInvalid, TooManyRequests, Unauthorized
from server.http.access.auth_middleware import client_network
from server.http.access.authenticator import Credential, CredentialKind, principal_of_token
from server.http.access.credentials import BEARER
from server.http.access.principal import Principal
from server.http.access.session_cookie import (
    COOKIE,
    check_same_origin,
    clear_cookie,
    clear_person_cookie,
    is_from_browser,
    read_person_cookie,
    set_cookie,
)
from server.http.request_body import document_body
from server.http.router import api_router
from store.access import audit, browser_sessions, person_sessions, tokens
from store.access.tokens import ValidToken

router = api_router("/session", tags=["access"])

TOKEN: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["token"],
    "properties": {"token": {"type": "string", "minLength": 1, "maxLength": 200}},
}
TokenBody = Annotated[Any, Depends(document_body(TOKEN, "The token to sign in with."))]


async def _posted_token(document: TokenBody) -> str:
    """The token in the body; error messages never quote the body."""
    token = document.get("token") if isinstance(document, dict) else None
    if not isinstance(token, str) or not 0 < len(token) <= 200:
        raise RequestInvalid([Problem("/body/token", "missing", "a token", "something else")])
    return token


async def _authenticated_token(
    secret: Annotated[str, Depends(_posted_token)],
    request: Request,
    authenticator: AuthenticatorDep,
) -> ValidToken:
    """The token in the body. Raises CrossOrigin, Unauthorized and TooManyRequests."""
    if is_from_browser(request.scope):
        check_same_origin(request.scope)
    address = client_network(request.scope)
    valid = await authenticator.find(
        Credential(CredentialKind.TOKEN, tokens.digest_of(secret)), address
    )
    if isinstance(valid, ValidToken):
        return valid
    try:
        authenticator.count_failure(address)
    except TooManyRequests:
        request.scope["state"]["unlogged"] = True
        raise
    raise Unauthorized("Expected a valid token in the body.", (BEARER,))


@router.post(
    "",
    summary="Sign in with a browser",
    status_code=201,
    responses=problems(400, 403, 413, 422, 429),
    openapi_extra={"security": []},
)
def create(
    valid: Annotated[ValidToken, Depends(_authenticated_token)],
    request: Request,
    response: Response,
    database: DatabaseDep,
    authenticator: AuthenticatorDep,
) -> Session:
    """Exchange a token for an HttpOnly cookie, which expires after 12 hours."""
    principal = principal_of_token(valid)
    with database.write() as session:
        end_sessions(session, request)  # those that this browser had
        cookie, expires_at = browser_sessions.create(session, valid.token)
        audit.record(session, actor_of(request, principal), "session.create")
    authenticator.forget(principal.token_id)
    set_cookie(response, cookie, secure=request.url.scheme == "https")
    clear_person_cookie(response, request.cookies)
    response.headers["Cache-Control"] = "no-store"
    return session_of(replace(principal, expires_at=expires_at))


@router.get("", summary="Read the current session")
async def read(principal: PrincipalDep, response: Response) -> Session:
    """Return the token or the person of the request, and when the session expires."""
    response.headers["Cache-Control"] = "no-store"
    return session_of(principal)


@router.patch("", summary="Open another project", responses=problems(403, 404, 422))
def change(
    changes: SessionChanges,
    principal: PrincipalDep,
    response: Response,
    database: DatabaseDep,
    authenticator: AuthenticatorDep,
) -> Session:
    """Open another project in the session of a person, of those in its `grants`."""
    person = principal.person
    if person is None:
        raise Forbidden("Expected the session of a person; a token has one project.")
    grants = {grant.project: grant for grant in person.grants}
    grant = grants.get(changes.project)
    if grant is None:
        raise NotFound(f"There is no project {changes.project!r}.")
    with database.write() as session:
        person_sessions.open_project(session, person.session_id, grant.project)
    authenticator.forget(person.id)
    response.headers["Cache-Control"] = "no-store"
    role, scopes = Role(grant.role), frozenset(grant.scopes)
    return session_of(replace(principal, project=grant.project, role=role, scopes=scopes))


@router.put(
    "/activity",
    summary="Say that the person is there",
    status_code=204,
    responses=problems(403),
)
def record_activity(principal: PrincipalDep, database: DatabaseDep) -> None:
    """Keep the session of a person from ending because nobody uses it.

    Other requests do not: a page sends them by itself.
    """
    if principal.person is None:
        raise Forbidden("Expected the session of a person; that of a token ends after its time.")
    with database.write() as session:
        person_sessions.record_activity(session, principal.person.session_id)


@router.delete("", summary="Sign out a browser", status_code=204)
def delete(
    request: Request,
    response: Response,
    principal: PrincipalDep,
    database: DatabaseDep,
    authenticator: AuthenticatorDep,
) -> None:
    """Delete the session of the cookie, and the cookie."""
    with database.write() as session:
        if end_sessions(session, request):
            audit.record(session, actor_of(request, principal), "session.delete")
    authenticator.forget(principal.token_id)
    clear_cookie(response, secure=request.url.scheme == "https")
    clear_person_cookie(response, request.cookies)


def end_sessions(session: DatabaseSession, request: Request) -> bool:
    """End the sessions of the browser that sent the request; False if it has none."""
    token_secret = request.cookies.get(COOKIE, "")
    person_secret = read_person_cookie(request.cookies, request.url.scheme) or ""
    ended_token = browser_sessions.remove(session, tokens.digest_of(token_secret))
    ended_person = person_sessions.remove(session, tokens.digest_of(person_secret))
    return ended_token or ended_person


def session_of(principal: Principal) -> Session:
    """The session as the API shows it."""
    return Session.model_validate(principal)

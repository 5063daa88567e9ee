"""Create, list and revoke tokens."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Path, Request, Response
from sqlalchemy.orm import Session

from ampspec.api.roles import Role
from ampspec.api.tokens import CreatedToken, RotationRequest, Token, TokenList, TokenRequest
from ampspec.documents.text import join_names
from server.deps import (
    ActorDep,
    AuthenticatorDep,
    DatabaseDep,
    TokenManagerDep,
    check_administers,
    check_is_admin,
)
from server.documentation.openapi import problems
from server.errors import Conflict, Forbidden, NotFound
from server.http.access.credentials import secret_of
from server.http.access.principal import Principal
from server.http.json_body import JsonRoute
from server.http.newest_first import (
    Cursor,
    Limit,
    cursor_of,
    page_of,
    read_cursor,
    rows_to_read,
)
from server.http.request_body import body_of
from server.http.responses import to_response
from server.http.router import api_router
from server.idempotency import IdempotentRequestDep, respond_once
from server.row_models import from_row
from store import tables
from store.access import audit, people, tokens
from store.access.idempotency import StoredResponse
from store.database import Database

router = api_router("/tokens", tags=["access"], route_class=JsonRoute)

RotationBody = Annotated[
    RotationRequest,
    Depends(body_of(RotationRequest, "How long the former secret is valid.", required=False)),
]
Id = Annotated[str, Path(description="The token's id.", max_length=32, pattern="^[0-9a-f]+$")]


@router.get("", summary="List tokens", responses=problems(403))
def listing(
    manager: TokenManagerDep, database: DatabaseDep, limit: Limit = None, cursor: Cursor = None
) -> TokenList:
    """List the tokens, newest first, including revoked and expired ones.

    For an admin of a project those of the project, for a signed-in person also its own.
    """
    is_admin = manager.role is Role.ADMIN or manager.is_project_admin
    with database.read() as session:
        rows, has_more = page_of(
            tokens.listing(
                session,
                project=manager.visible_project if is_admin else None,
                owner_id=None if manager.role is Role.ADMIN else manager.owner_id,
                after_token=read_cursor(cursor),
                limit=rows_to_read(limit),
            ),
            limit,
        )
        owners = people.names(session, {row.owner_id for row in rows})
        items = [from_row(Token, row, {"owner": owners.get(row.owner_id or "")}) for row in rows]
    next_cursor = cursor_of(items[-1].created_at, items[-1].id) if has_more else None
    return TokenList(items=items, next_cursor=next_cursor)


@router.post(
    "",
    summary="Create a token",
    status_code=201,
    response_model=CreatedToken,
    responses=problems(403, 409, 422),
)
def create(
    *,
    manager: TokenManagerDep,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
    request: Request,
    token_request: TokenRequest,
) -> Response:
    """Create a token; only this response contains its secret.

    An admin of a project creates members and viewers of it, with scopes that it has itself. A
    signed-in person creates tokens of its own, which allow no more than the person may do, and
    end with its access.
    """
    owner_id = _owner_of(manager, token_request)
    creator_secret, secret = secret_of(request.scope), ""

    def derived(token_id: str) -> str:
        return tokens.derive_secret(
            token_id,
            key=idempotent_request.key if idempotent_request else "",
            creator_secret=creator_secret,
        )

    def make(session: Session) -> StoredResponse:
        nonlocal secret
        values = token_request.model_dump(exclude={"personal"})
        values |= {"created_by": manager.token_name, "owner_id": owner_id}
        secret = tokens.create(session, **values, secret_of=derived if idempotent_request else None)
        row = tokens.get_by_secret(session, secret)
        owners = people.names(session, {owner_id})
        token = from_row(Token, row, {"owner": owners.get(owner_id or "")})
        facts = {"name": token.name, "role": token.role, "scopes": token.scopes}
        audit.record(session, actor, "token.create", token.id, project=token.project, **facts)
        return StoredResponse(201, {"Cache-Control": "no-store"}, token.model_dump_json())

    stored = respond_once(database, idempotent_request, make)
    token = Token.model_validate_json(stored.body)
    if not secret:  # the request is a repeat
        secret = _repeat_secret(database, token.id, derived(token.id))
    token_with_secret = CreatedToken(**token.model_dump(), secret=secret)
    return to_response(replace(stored, body=token_with_secret.model_dump_json()))


@router.post(
    "/{token_id}/rotate",
    summary="Rotate a token",
    response_model=CreatedToken,
    responses=problems(403, 404, 409, 422),
)
def rotate(
    *,
    token_id: Id,
    rotation: RotationBody,
    manager: TokenManagerDep,
    actor: ActorDep,
    database: DatabaseDep,
    authenticator: AuthenticatorDep,
    idempotent_request: IdempotentRequestDep,
    request: Request,
) -> Response:
    """Give a token another secret, which only this response contains.

    Its id, role and scopes stay. The secret before is valid for `grace_s` more seconds, and so are
    the browser sessions that were opened with it.
    """
    creator_secret, secret = secret_of(request.scope), ""

    def derived(token_id: str) -> str:
        key = idempotent_request.key if idempotent_request else ""
        return tokens.derive_secret(token_id, key=f"rotate {key}", creator_secret=creator_secret)

    def make(session: Session) -> StoredResponse:
        nonlocal secret
        token = _managed_token(session, manager, token_id)
        if not _is_of(manager, token):
            _check_may_give(manager, token.role, token.scopes)
        secret_of_token = derived if idempotent_request else None
        secret = tokens.rotate(session, token, rotation.grace_s, secret_of=secret_of_token)
        details = {"name": token.name, "grace_s": rotation.grace_s}
        audit.record(session, actor, "token.rotate", token.id, project=token.project, **details)
        headers = {"Cache-Control": "no-store"}
        return StoredResponse(200, headers, from_row(Token, token).model_dump_json())

    try:
        stored = respond_once(database, idempotent_request, make)
    except tokens.TokenRevoked as error:
        raise Conflict(str(error)) from None
    finally:
        authenticator.forget(token_id)
    token = Token.model_validate_json(stored.body)
    if not secret:  # the request is a repeat
        secret = _repeat_secret(database, token.id, derived(token.id))
    token_with_secret = CreatedToken(**token.model_dump(), secret=secret)
    return to_response(replace(stored, body=token_with_secret.model_dump_json()))


def _managed_token(session: Session, manager: Principal, token_id: str) -> tables.Token:
    """The token, if the principal manages it. Raises NotFound."""
    token = tokens.get(session, token_id)
    if token is not None and _is_of(manager, token):
        return token
    is_hidden = token is not None and manager.role is not Role.ADMIN and token.role == Role.ADMIN
    if token is None or is_hidden or not manager.administers(token.project):
        raise NotFound(f"There is no token {token_id!r}.")
    return token


def _is_of(manager: Principal, token: tables.Token) -> bool:
    """Whether the token belongs to the person who has signed in."""
    return manager.person is not None and token.owner_id == manager.person.id


def _owner_of(manager: Principal, token_request: TokenRequest) -> str | None:
    """The person whom a new token belongs to; None for nobody. Raises Forbidden."""
    project, role, scopes = token_request.project, token_request.role, token_request.scopes
    person = manager.person
    if person is not None and token_request.personal:
        grants = {grant.project: grant for grant in person.grants}
        grant = grants.get(project, grants[manager.project])
        is_granted = project in grants or grant.role == Role.ADMIN
        if not is_granted or not grant.allows(role, scopes):
            allowed = join_names(
                " ".join((f"{grant.role} of {grant.project}", *grant.scopes))
                for grant in person.grants
            )
            raise Forbidden(
                f"Expected a token that allows no more than you may do ({allowed}); received "
                f"{' '.join((f'{role} of {project}', *scopes))}."
            )
        return person.id
    check_is_admin(manager)
    check_administers(manager, project)
    _check_may_give(manager, role, scopes)
    # What a token of a person creates is not valid for longer than that token.
    return None if person is not None else manager.owner_id


def _check_may_give(admin: Principal, role: str, scopes: Sequence[str]) -> None:
    """Raise Forbidden for a role or scope that the principal has not itself."""
    if admin.role is Role.ADMIN:
        return
    missing = sorted(set(scopes) - admin.scopes)
    if role == Role.ADMIN or missing:
        what = f"the scope {missing[0]}" if missing else f"the role {role}"
        raise Forbidden(
            f"Expected a token with no more permissions than this one, received {what}. An admin "
            "of all projects can do that."
        )


def _repeat_secret(database: Database, token_id: str, secret: str) -> str:
    """The secret, if it is the token's. Raises Conflict if another token sent the first request."""
    with database.read() as session:
        token = tokens.get_by_secret(session, secret)
    if token is None or token.id != token_id:
        raise Conflict(
            f"This request already gave the token {token_id!r} its secret, which is returned only "
            "to the token or session that asked first. Repeat it with a new key."
        )
    return secret


@router.delete(
    "/{token_id}",
    summary="Revoke a token",
    status_code=204,
    response_class=Response,
    responses=problems(403, 404, 409),
)
def revoke(
    *,
    token_id: Id,
    manager: TokenManagerDep,
    actor: ActorDep,
    database: DatabaseDep,
    authenticator: AuthenticatorDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Revoke a token and the browser sessions signed in with it."""

    def make(session: Session) -> StoredResponse:
        token = _managed_token(session, manager, token_id)
        if tokens.revoke(session, token):
            audit.record(session, actor, "token.revoke", token.id, project=token.project)
        return StoredResponse(204, {}, "")

    try:
        return to_response(respond_once(database, idempotent_request, make))
    finally:
        authenticator.forget(token_id)  # after the commit, also if its response was lost

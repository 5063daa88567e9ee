"""Create, list and revoke tokens."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from sqlalchemy.orm import Session

from ampcore.api.tokens import CreatedToken, Token, TokenList, TokenRequest
from server.access.credentials import secret_of
from server.deps import ActorDep, AdminDep, AuthenticatorDep, DatabaseDep
from server.errors import Conflict, NotFound
from server.http.json_body import JsonRoute
from server.http.responses import to_response
from server.idempotency import IdempotentRequestDep, respond_once
from server.openapi import problems
from server.row_models import from_row
from store import audit, tokens
from store.database import Database
from store.idempotency import StoredResponse

router = APIRouter(prefix="/tokens", tags=["access"], route_class=JsonRoute)

Id = Annotated[str, Path(description="The token's id.", max_length=32, pattern="^[0-9a-f]+$")]


@router.get("", summary="List tokens", responses=problems(403))
def listing(_admin: AdminDep, database: DatabaseDep) -> TokenList:
    """List every token, the newest first; those that are revoked or expired too."""
    with database.read() as session:
        return TokenList(items=[from_row(Token, row) for row in tokens.listing(session)])


@router.post(
    "",
    summary="Make a token",
    status_code=201,
    response_model=CreatedToken,
    responses=problems(403, 409, 422),
)
def create(
    *,
    admin: AdminDep,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
    request: Request,
    asked: TokenRequest,
) -> Response:
    """Make a token; the answer tells its secret, which cannot be read again."""
    maker, secret = secret_of(request.scope), ""

    def derived(token_id: str) -> str:
        return tokens.derived_secret(
            token_id, key=idempotent_request.key if idempotent_request else "", maker=maker
        )

    def make(session: Session) -> StoredResponse:
        nonlocal secret
        values = {**asked.model_dump(), "created_by": admin.token_name}
        secret = tokens.create(session, **values, secret_of=derived if idempotent_request else None)
        token = from_row(Token, tokens.get_by_secret(session, secret))
        facts = {"name": token.name, "role": token.role}
        audit.record(session, actor, "token.create", token.id, project=token.project, **facts)
        return StoredResponse(201, {"Cache-Control": "no-store"}, token.model_dump_json())

    answer = respond_once(database, idempotent_request, make)
    token = Token.model_validate_json(answer.body)
    if not secret:  # the request is a repeat
        secret = _repeat_secret(database, token.id, derived(token.id))
    made = CreatedToken(**token.model_dump(), secret=secret)
    return to_response(replace(answer, body=made.model_dump_json()))


def _repeat_secret(database: Database, token_id: str, secret: str) -> str:
    """The secret, if it is the token's. Raises Conflict if another token sent the first request."""
    with database.read() as session:
        known = tokens.get_by_secret(session, secret)
    if known is None or known.id != token_id:
        raise Conflict(
            f"This request made the token {token_id!r} before; its secret is returned only to "
            "the token or session that made it. Revoke it, and make another with another key."
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
    _admin: AdminDep,
    actor: ActorDep,
    database: DatabaseDep,
    authenticator: AuthenticatorDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Revoke a token and the browser sessions signed in with it."""

    def make(session: Session) -> StoredResponse:
        token = tokens.get(session, token_id)
        if token is None:
            raise NotFound(f"There is no token {token_id!r}.")
        if tokens.revoke(session, token):
            audit.record(session, actor, "token.revoke", token.id, project=token.project)
        return StoredResponse(204, {}, "")

    try:
        return to_response(respond_once(database, idempotent_request, make))
    finally:
        authenticator.forget(token_id)  # after the commit, also if its response was lost

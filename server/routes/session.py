"""Sign a browser in and out, and tell who asks."""

from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response

from ampcore.spec import Problem
from server.access.credentials import BEARER
from server.access.door import address_of
from server.access.keyring import Credential, Kind, principal_of
from server.access.principal import Role
from server.access.sessions import (
    COOKIE,
    clear_cookie,
    comes_from_a_page,
    refuse_cross_origin,
    set_cookie,
)
from server.deps import DatabaseDep, DocumentDep, KeyringDep, PrincipalDep, actor
from server.errors import TooManyRequests, Unauthorized
from server.http.parameters import RequestInvalid
from server.openapi import problems
from server.views import View
from store import audit, sessions, tokens
from store.tokens import Valid

router = APIRouter(prefix="/session", tags=["access"])

TOKEN_BODY: Final[dict[str, Any]] = {
    "security": [],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["token"],
                    "properties": {"token": {"type": "string", "minLength": 1, "maxLength": 200}},
                }
            }
        },
    },
}


class Session(View):
    """Who asks, and what they may do."""

    token_id: str
    token_name: str
    role: Role
    project: str
    expires_at: datetime | None = None


async def _posted_token(document: DocumentDep) -> str:
    """The token in the body; a mistake is told without it, whatever the body holds."""
    token = document.get("token") if isinstance(document, dict) else None
    if not isinstance(token, str) or not 0 < len(token) <= 200:
        raise RequestInvalid([Problem("/body/token", "missing", "a token", "something else")])
    return token


async def _signed_in(
    secret: Annotated[str, Depends(_posted_token)], request: Request, keyring: KeyringDep
) -> Valid:
    """The token in the body. Raises CrossOrigin, Unauthorized and TooManyRequests."""
    if comes_from_a_page(request.scope):
        refuse_cross_origin(request.scope)
    address = address_of(request.scope)
    valid = await keyring.find(Credential(Kind.TOKEN, tokens.digest_of(secret)), address)
    if valid is not None:
        return valid
    try:
        keyring.count_failure(address)
    except TooManyRequests:
        request.scope["state"]["unlogged"] = True
        raise
    raise Unauthorized("Expected a valid token in the body.", (BEARER,))


@router.post(
    "",
    summary="Sign a browser in",
    status_code=201,
    responses=problems(400, 403, 413, 422, 429),
    openapi_extra=TOKEN_BODY,
)
def create(
    valid: Annotated[Valid, Depends(_signed_in)],
    request: Request,
    response: Response,
    database: DatabaseDep,
    keyring: KeyringDep,
) -> Session:
    """Exchange a token for a cookie that scripts cannot read; it ends after 12 hours."""
    principal = principal_of(valid)
    with database.write() as session:
        sessions.remove(session, _digest(request))  # what this browser had before
        cookie, expires_at = sessions.create(session, valid.token)
        audit.note(session, actor(request, principal), "session.create")
    keyring.forget(principal.token_id)
    set_cookie(response, cookie, secure=request.url.scheme == "https")
    response.headers["Cache-Control"] = "no-store"
    return Session.model_validate({**vars(principal), "expires_at": expires_at})


@router.get("", summary="Who am I?")
async def read(principal: PrincipalDep, response: Response) -> Session:
    """The token that the request was let in by, and until when that lasts."""
    response.headers["Cache-Control"] = "no-store"
    return Session.model_validate(principal)


@router.delete("", summary="Sign a browser out", status_code=204)
def delete(
    request: Request,
    response: Response,
    principal: PrincipalDep,
    database: DatabaseDep,
    keyring: KeyringDep,
) -> None:
    """End the session of the cookie, and let the browser forget it."""
    with database.write() as session:
        if sessions.remove(session, _digest(request)):
            audit.note(session, actor(request, principal), "session.delete")
    keyring.forget(principal.token_id)
    clear_cookie(response, secure=request.url.scheme == "https")


def _digest(request: Request) -> str:
    """By which the session of the request's cookie is found."""
    return tokens.digest_of(request.cookies.get(COOKIE, ""))

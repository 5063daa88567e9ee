"""Make, list and revoke tokens."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError
from sqlalchemy.orm import Session

from server.access.credentials import secret_of
from server.access.principal import Role
from server.deps import ActorDep, AdminDep, DatabaseDep, KeyringDep
from server.errors import Conflict, NotFound
from server.http.json_route import JsonRoute
from server.http.responses import response_of
from server.jobs.idempotency import KeyedDep, answer_once
from server.openapi import problems
from server.routes.projects import ProjectName
from server.views import Record, View
from store import audit, projects, tokens
from store.database import Database
from store.idempotency import Answer

router = APIRouter(prefix="/tokens", tags=["access"], route_class=JsonRoute)

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Id = Annotated[str, Path(description="The token's id.", max_length=32, pattern="^[0-9a-f]+$")]


def _to_come(moment: datetime) -> datetime:
    with suppress(OverflowError):  # the end of time, in a zone that is behind
        if datetime.now(UTC) < moment.astimezone(UTC):
            return moment
    raise PydanticCustomError("in_the_past", "a moment to come")


class NewToken(BaseModel):
    """A token to make."""

    model_config = ConfigDict(extra="forbid")

    name: Name = Field(description="Whose token it is.")
    role: Role = Role.MEMBER
    project: ProjectName = projects.DEFAULT
    expires_at: Annotated[AwareDatetime, AfterValidator(_to_come)] | None = None


class Token(Record):
    """A token; its secret is not kept."""

    id: str
    name: str
    role: Annotated[Role | str, Field(union_mode="left_to_right")]
    project: str
    created_at: datetime
    created_by: str | None = Field(description="The name of the token that made it.")
    expires_at: datetime | None
    revoked_at: datetime | None


class MadeToken(Token):
    """A new token, with what opens the door."""

    secret: str = Field(description="Told this one time.")


class TokenList(View):
    """Every token there ever was, the newest first."""

    items: list[Token]


@router.get("", summary="List tokens", responses=problems(403))
def listing(_admin: AdminDep, database: DatabaseDep) -> TokenList:
    """List every token, the newest first; those that are revoked or expired too."""
    with database.read() as session:
        return TokenList(items=[Token.read(row) for row in tokens.listing(session)])


@router.post(
    "",
    summary="Make a token",
    status_code=201,
    response_model=MadeToken,
    responses=problems(403, 409, 422),
)
def create(
    *,
    admin: AdminDep,
    actor: ActorDep,
    database: DatabaseDep,
    keyed: KeyedDep,
    request: Request,
    asked: NewToken,
) -> Response:
    """Make a token; the answer tells its secret, which cannot be read again."""
    maker, told_secret = secret_of(request.scope), ""

    def derived(token_id: str) -> str:
        return tokens.derived_secret(token_id, key=keyed.key if keyed else "", maker=maker)

    def make(session: Session) -> Answer:
        nonlocal told_secret
        values = {**asked.model_dump(), "created_by": admin.token_name}
        told_secret = tokens.create(session, **values, secret_of=derived if keyed else None)
        token = Token.read(tokens.of_secret(session, told_secret))
        facts = {"name": token.name, "role": token.role}
        audit.note(session, actor, "token.create", token.id, project=token.project, **facts)
        return Answer(201, {"Cache-Control": "no-store"}, token.model_dump_json())

    answer = answer_once(database, keyed, make)
    token = Token.model_validate_json(answer.body)
    if not told_secret:  # the request was carried out before
        told_secret = _told_again(database, token.id, derived(token.id))
    made = MadeToken(**token.model_dump(), secret=told_secret)
    return response_of(replace(answer, body=made.model_dump_json()))


def _told_again(database: Database, token_id: str, secret: str) -> str:
    """The secret, if it is the token's. Raises Conflict where another secret asked for it."""
    with database.read() as session:
        known = tokens.of_secret(session, secret)
    if known is None or known.id != token_id:
        raise Conflict(
            f"This request made the token {token_id!r} before; its secret is told again only to "
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
    keyring: KeyringDep,
    keyed: KeyedDep,
) -> Response:
    """Let a token, and the sessions that came by it, open nothing any more."""

    def make(session: Session) -> Answer:
        token = tokens.get(session, token_id)
        if token is None:
            raise NotFound(f"There is no token {token_id!r}.")
        if tokens.revoke(session, token):
            audit.note(session, actor, "token.revoke", token.id, project=token.project)
        return Answer(204, {}, "")

    try:
        return response_of(answer_once(database, keyed, make))
    finally:
        keyring.forget(token_id)  # after the commit, also after one whose answer was lost

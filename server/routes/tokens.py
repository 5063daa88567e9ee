"""Make, list and revoke tokens."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from server.access.principal import Role
from server.deps import ActorDep, AdminDep, DatabaseDep, KeyringDep
from server.errors import NotFound
from server.http.json_route import JsonRoute
from server.openapi import problems
from server.routes.projects import ProjectName
from server.views import Record, View
from store import audit, projects, tokens

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


@router.post("", summary="Make a token", status_code=201, responses=problems(403, 422))
def create(
    admin: AdminDep, actor: ActorDep, database: DatabaseDep, response: Response, asked: NewToken
) -> MadeToken:
    """Make a token; the answer tells its secret, which cannot be read again."""
    values = asked.model_dump()
    with database.write() as session:
        secret = tokens.create(session, **values, created_by=admin.token_name)
        row = tokens.of_secret(session, secret)
        token = Token.model_validate(row)
        told = {"name": token.name, "role": token.role}
        audit.note(session, actor, "token.create", token.id, project=token.project, **told)
    response.headers["Cache-Control"] = "no-store"
    return MadeToken(**token.model_dump(), secret=secret)


@router.delete(
    "/{token_id}", summary="Revoke a token", status_code=204, responses=problems(403, 404, 409)
)
def revoke(
    token_id: Id, _admin: AdminDep, actor: ActorDep, database: DatabaseDep, keyring: KeyringDep
) -> None:
    """Let a token, and the sessions that came by it, open nothing any more."""
    with database.write() as session:
        token = tokens.get(session, token_id)
        if token is None:
            raise NotFound(f"There is no token {token_id!r}.")
        if tokens.revoke(session, token):
            audit.note(session, actor, "token.revoke", token.id, project=token.project)
    keyring.forget(token_id)  # after the commit

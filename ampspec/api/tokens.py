"""Access tokens."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ampspec.api.base import ApiModel, RequestModel, StoredModel
from ampspec.api.projects import DEFAULT_PROJECT, ProjectName
from ampspec.api.roles import Role, Scope, current_scope
from ampspec.api.session import SCOPE_NAMES, AnyRole, Scoped

DEFAULT_GRACE_S: Final = 3_600.0
MAX_GRACE_S: Final = 7 * 86_400.0
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _check_future(moment: datetime) -> datetime:
    with suppress(OverflowError):  # the last day of the calendar, in a time zone behind UTC
        if datetime.now(UTC) < moment.astimezone(UTC):
            return moment
    raise PydanticCustomError("in_the_past", "a time in the future")


class TokenRequest(RequestModel):
    """The request to create a token."""

    name: Name = Field(description="The name of the token, for example its owner's.")
    role: Role = Role.MEMBER
    scopes: list[Annotated[Scope, BeforeValidator(current_scope)]] = Field(
        default_factory=list,
        max_length=len(Scope),
        validation_alias=SCOPE_NAMES,
        description="Permissions beyond the role; an admin needs none.",
    )
    project: ProjectName = DEFAULT_PROJECT
    expires_at: Annotated[AwareDatetime, AfterValidator(_check_future)] | None = None
    personal: bool = Field(
        default=True,
        description="Whether the token belongs to the person who creates it, and ends with its "
        "access; false, for admins: it stays. Without effect unless a person creates it.",
    )

    @model_validator(mode="after")
    def _check_scopes(self) -> Self:
        if len(set(self.scopes)) < len(self.scopes):
            raise PydanticCustomError("repeated_scope", "different scopes")
        if self.role is Role.VIEWER and Scope.PROJECT_ADMIN in self.scopes:
            raise PydanticCustomError(
                "viewer_with_scope", f"the role member with the scope {Scope.PROJECT_ADMIN}"
            )
        return self


class RotationRequest(RequestModel):
    """The request to give a token another secret."""

    grace_s: float = Field(
        default=DEFAULT_GRACE_S,
        ge=0,
        le=MAX_GRACE_S,
        allow_inf_nan=False,
        description="For how long the secret before is valid, too; 0: it ends at once.",
    )


class Token(Scoped, StoredModel):
    """A token, without its secret, which is not stored."""

    id: str
    name: str
    role: AnyRole
    project: str
    created_at: datetime
    created_by: str | None = Field(description="The name of the token that created it.")
    expires_at: datetime | None
    revoked_at: datetime | None
    owner_id: str | None = Field(
        default=None, description="The person without whose access it is not valid."
    )
    owner: str | None = Field(default=None, description="The person's e-mail address or name.")


class CreatedToken(Token):
    """A new token with its secret."""

    secret: str = Field(repr=False, description="Shown only in this response.")


class TokenList(ApiModel):
    """Tokens, including revoked and expired ones, newest first.

    `next_cursor` is the cursor of the next page.
    """

    items: list[Token]
    next_cursor: str | None = None

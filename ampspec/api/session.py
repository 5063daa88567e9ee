"""The token, browser session or person of a request."""

from datetime import datetime
from typing import Annotated

from pydantic import AliasChoices, BeforeValidator, Field, computed_field

from ampspec.api.base import ApiModel, RequestModel
from ampspec.api.projects import ProjectName
from ampspec.api.roles import Role, Scope, current_scope, former_scopes

AnyRole = Annotated[Role | str, Field(union_mode="left_to_right")]
AnyScope = Annotated[Scope | str, Field(union_mode="left_to_right"), BeforeValidator(current_scope)]
"""A newer server may have roles and scopes that this version does not know."""
SCOPE_NAMES = AliasChoices("scopes", "rights")
"""The field of scopes; version 0.5 called it `rights`."""


class Scoped(ApiModel):
    """What a token allows beyond its role."""

    scopes: list[AnyScope] = Field(
        default_factory=list,
        validation_alias=SCOPE_NAMES,
        description="Permissions beyond the role.",
    )

    @computed_field(  # type: ignore[prop-decorator]  # mypy knows no decorated properties
        description="The scopes by their names in version 0.5.",
        json_schema_extra={"deprecated": True},
    )
    @property
    def rights(self) -> list[str]:
        """The scopes by their names in version 0.5."""
        return former_scopes(self.scopes)


class ProjectGrant(ApiModel):
    """What a person may do in a project; the role admin counts in every project."""

    project: str
    role: AnyRole
    scopes: list[AnyScope] = Field(default_factory=list)


class SessionPerson(ApiModel):
    """The person who has signed in with the provider."""

    id: str
    name: str
    email: str | None
    grants: list[ProjectGrant] = Field(description="The projects that the session can open.")


class Session(Scoped):
    """The token of a request, with its role and project, or the person."""

    token_id: str = Field(description="The id of the token, or of the person.")
    token_name: str = Field(description="The name of the token, or the person's e-mail address.")
    role: AnyRole
    project: str
    expires_at: datetime | None = None
    person: SessionPerson | None = Field(
        default=None, description="Who has signed in with the provider; null for a token."
    )


class SessionChanges(RequestModel):
    """The request to open another project in the session of a person."""

    project: ProjectName = Field(description="One of the person's `grants`.")

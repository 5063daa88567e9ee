"""The token or browser session of a request."""

from datetime import datetime
from typing import Annotated

from pydantic import AliasChoices, BeforeValidator, Field, computed_field

from ampspec.api.base import ApiModel
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


class Session(Scoped):
    """The token of a request, with its role and project."""

    token_id: str
    token_name: str
    role: AnyRole
    project: str
    expires_at: datetime | None = None

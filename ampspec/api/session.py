"""The token or browser session of a request."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from ampspec.api.base import ApiModel
from ampspec.api.roles import Right, Role

AnyRole = Annotated[Role | str, Field(union_mode="left_to_right")]
AnyRight = Annotated[Right | str, Field(union_mode="left_to_right")]
"""A newer server may have roles and rights that this version does not know."""


class Session(ApiModel):
    """The token of a request, with its role and project."""

    token_id: str
    token_name: str
    role: AnyRole
    rights: list[AnyRight] = Field(default_factory=list, description="Permissions beyond the role.")
    project: str
    expires_at: datetime | None = None

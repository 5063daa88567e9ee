"""The token or browser session of a request."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from ampcore.api.base import ApiModel


class Role(StrEnum):
    """The role of a token."""

    ADMIN = "admin"
    """Everything, in every project."""
    MEMBER = "member"
    """Submit and control the jobs of its project."""
    VIEWER = "viewer"
    """Read the jobs of its project."""


AnyRole = Annotated[Role | str, Field(union_mode="left_to_right")]
"""A newer server may have roles that this version does not know."""


class Session(ApiModel):
    """The token of a request, with its role and project."""

    token_id: str
    token_name: str
    role: AnyRole
    project: str
    expires_at: datetime | None = None

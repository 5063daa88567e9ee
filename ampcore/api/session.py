"""The token or browser session of a request."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from ampcore.api.base import ApiModel


class Role(StrEnum):
    """What a token may do."""

    ADMIN = "admin"
    """Everything, in every project."""
    MEMBER = "member"
    """Submit and steer the jobs of its project."""
    VIEWER = "viewer"
    """Read what is in its project."""


AnyRole = Annotated[Role | str, Field(union_mode="left_to_right")]
"""A newer server may have roles that this version does not know."""


class Session(ApiModel):
    """Who asks, and what they may do."""

    token_id: str
    token_name: str
    role: AnyRole
    project: str
    expires_at: datetime | None = None

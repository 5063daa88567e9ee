"""Who asks: what the door has found out, for everything behind it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    """What a token may do."""

    ADMIN = "admin"
    """Everything, in every project."""
    MEMBER = "member"
    """Submit and steer the jobs of its project."""
    VIEWER = "viewer"
    """Read what is in its project."""


@dataclass(frozen=True)
class Principal:
    """A token that is valid now; a browser's session may expire before its token does."""

    token_id: str
    token_name: str
    role: Role
    project: str
    expires_at: datetime | None = None

    @property
    def sees(self) -> str | None:
        """The one project whose jobs are there for it; None: those of every project."""
        return None if self.role is Role.ADMIN else self.project

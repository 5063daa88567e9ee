"""The principal of a request: token, project and role."""

from dataclasses import dataclass
from datetime import datetime

from ampcore.api.roles import Right, Role


@dataclass(frozen=True)
class Principal:
    """A valid token, or a browser session of it, which may expire earlier."""

    token_id: str
    token_name: str
    role: Role
    project: str
    expires_at: datetime | None = None
    rights: frozenset[str] = frozenset()

    @property
    def visible_project(self) -> str | None:
        """The project whose jobs it may see; None for every project."""
        return None if self.role is Role.ADMIN else self.project

    def may(self, right: Right) -> bool:
        """Whether it has the right, as an admin has every one."""
        return self.role is Role.ADMIN or right in self.rights

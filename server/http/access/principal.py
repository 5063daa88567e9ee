"""The principal of a request: token, project and role."""

from dataclasses import dataclass
from datetime import datetime

from ampspec.api.roles import Grant, Role, Scope


@dataclass(frozen=True)
class SignedInPerson:
    """A person who has signed in with the provider, in one of its browsers."""

    id: str
    name: str
    email: str | None
    session_id: str
    grants: tuple[Grant, ...]
    """What it may do, in each of its projects; one of them is open."""


@dataclass(frozen=True)
class Principal:
    """A valid token, a browser session of it, or the session of a person."""

    token_id: str
    """The id of the token, or of the person."""
    token_name: str
    """The name of the token, or the e-mail address of the person."""
    role: Role
    project: str
    expires_at: datetime | None = None
    scopes: frozenset[str] = frozenset()
    owner_id: str | None = None
    """The person whose session or token it is; None for a token that is nobody's."""
    person: SignedInPerson | None = None
    """None for a token, and for the browser session of one."""

    @property
    def visible_project(self) -> str | None:
        """The project whose jobs it may see; None for every project."""
        return None if self.role is Role.ADMIN else self.project

    def sees(self, project: str | None) -> bool:
        """Whether it may see the jobs of a project; None: of no project, which nobody sees."""
        return project is not None and self.visible_project in (None, project)

    @property
    def is_project_admin(self) -> bool:
        """Whether it administers its project alone."""
        return self.role is Role.MEMBER and Scope.PROJECT_ADMIN in self.scopes

    def administers(self, project: str) -> bool:
        """Whether it manages the tokens and retention rules of a project."""
        return self.role is Role.ADMIN or (self.is_project_admin and self.project == project)

    def has_scope(self, scope: Scope) -> bool:
        """Whether it has the scope, as an admin has every one."""
        return self.role is Role.ADMIN or scope in self.scopes

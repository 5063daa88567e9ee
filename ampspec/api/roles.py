"""The roles and scopes of tokens; needs no pydantic, so that `ampserver` starts quickly."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Role(StrEnum):
    """The role of a token."""

    ADMIN = "admin"
    """Everything, in every project."""
    MEMBER = "member"
    """Submit and control the jobs of its project."""
    VIEWER = "viewer"
    """Read the jobs of its project."""


class Scope(StrEnum):
    """A permission beyond the role of a token; an admin has all of them."""

    RUN_CODE = "jobs:run-code"
    """Submit jobs that run custom Python code."""
    PROJECT_ADMIN = "project:admin"
    """Manage the tokens and the retention rules of its project, and read its audit log."""


class FormerScope(StrEnum):
    """The scopes of version 0.5, which called them rights."""

    CODE = "code"


FORMER_SCOPES: Final[dict[str, Scope]] = {FormerScope.CODE: Scope.RUN_CODE}


def current_scope(name: Any) -> Any:
    """The present name of a scope; anything else is returned as it is."""
    return FORMER_SCOPES.get(name, name) if isinstance(name, str) else name


def former_scopes(scopes: Sequence[Any]) -> list[str]:
    """The names in version 0.5 of those scopes that it had."""
    return [former for former, scope in FORMER_SCOPES.items() if scope in scopes]


@dataclass(frozen=True)
class Grant:
    """What a person may do in a project; the role admin counts in every project."""

    project: str
    role: str
    scopes: tuple[str, ...] = ()

    def allows(self, role: str, scopes: Collection[str]) -> bool:
        """Whether a token of this role and these scopes may do no more than this."""
        if self.role == Role.ADMIN:
            return True
        is_higher = role == Role.ADMIN or (role == Role.MEMBER and self.role == Role.VIEWER)
        return not is_higher and set(scopes) <= set(self.scopes)

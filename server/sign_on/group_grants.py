"""Which groups of the provider may do what: reads AMPCORE_OIDC_GROUPS, and applies it."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ampspec.api.projects import DEFAULT_PROJECT, PROJECT_NAME
from ampspec.api.roles import Grant, Role, Scope

EXAMPLE: Final = '{"ml-admins": "admin", "vision": "vision:member+jobs:run-code"}'
ROLES_OF_PROJECTS: Final = (Role.MEMBER, Role.VIEWER)

GroupGrants = Mapping[str, tuple[Grant, ...]]


def read_groups(value: Any) -> Any:
    """The grants of each group. Raises ValueError with what was expected and what came."""
    if not isinstance(value, str):
        return value
    try:
        document = json.loads(value)
    except ValueError as error:
        raise ValueError(f"expected a JSON object such as {EXAMPLE}: {error}.") from None
    if not isinstance(document, dict) or not document:
        raise ValueError(f"expected a JSON object such as {EXAMPLE}, received {value[:80]!r}.")
    return {group: _grants(group, grants) for group, grants in document.items()}


def _grants(group: str, value: Any) -> tuple[Grant, ...]:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"expected for the group {group!r} a text such as 'vision:member', or a list of them, "
            f"received {json.dumps(value)[:80]}."
        )
    return tuple(_grant(group, text) for text in texts)


def _grant(group: str, text: str) -> Grant:
    """The grant in `admin`, `PROJECT:ROLE` or `PROJECT:ROLE+SCOPE+SCOPE`."""
    access, *scopes = text.split("+")
    if access == Role.ADMIN and not scopes:
        return Grant(DEFAULT_PROJECT, Role.ADMIN)
    project, _, role = access.rpartition(":")
    unknown = [scope for scope in scopes if scope not in list(Scope)]
    if role == Role.VIEWER and Scope.PROJECT_ADMIN in scopes:
        unknown = [f"{Scope.PROJECT_ADMIN} of a viewer"]
    if not re.fullmatch(PROJECT_NAME, project) or role not in ROLES_OF_PROJECTS or unknown:
        raise ValueError(
            f"expected for the group {group!r} 'admin', or PROJECT:ROLE with the role "
            f"{' or '.join(ROLES_OF_PROJECTS)}, and +SCOPE for each of the scopes "
            f"{', '.join(Scope)} that it has; received {text[:80]!r}."
        )
    return Grant(project, role, tuple(sorted(set(scopes))))


def grants_of_groups(mapping: GroupGrants, groups: Iterable[str]) -> tuple[Grant, ...]:
    """What a person in these groups may do, once for each project, in the order of the mapping.

    In a project with several grants the highest role counts, and the scopes of all. An admin is one
    in every project.
    """
    members = set(groups)
    granted = [grant for group, grants in mapping.items() if group in members for grant in grants]
    by_project: dict[str, Grant] = {}
    is_admin = any(grant.role == Role.ADMIN for grant in granted)
    for grant in granted:
        former = by_project.get(grant.project, grant)
        roles = {grant.role, former.role}
        role = Role.MEMBER if Role.MEMBER in roles else Role.VIEWER
        scopes = tuple(sorted({*grant.scopes, *former.scopes}))
        by_project[grant.project] = (
            Grant(grant.project, Role.ADMIN) if is_admin else Grant(grant.project, role, scopes)
        )
    return tuple(by_project.values())

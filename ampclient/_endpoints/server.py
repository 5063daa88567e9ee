"""Requests for workers, the catalog of spec kinds, tokens, projects and the audit log."""

from collections.abc import Mapping, Sequence
from typing import Any

from ampclient._endpoints.request import (
    JsonRequest,
    idempotency_header,
    items_of,
    params,
    parse_nothing,
    quote_path,
)
from ampspec.api.audit import AuditPage
from ampspec.api.catalog import Policy, PolicyList, SpecKind, SpecKindList
from ampspec.api.people import PersonList
from ampspec.api.projects import Project, ProjectList
from ampspec.api.retention import ProjectRetention, RetentionPreview
from ampspec.api.service import ServerVersion
from ampspec.api.session import Session
from ampspec.api.tokens import CreatedToken, TokenList
from ampspec.api.workers import Worker, WorkerList


def list_workers(limit: int, cursor: str | None) -> JsonRequest[WorkerList]:
    """A page of the workers that the server knows."""
    place = params(limit=limit, cursor=cursor)
    return JsonRequest(method="GET", path="/workers", params=place, read=WorkerList.from_json)


def get_worker(worker_id: str) -> JsonRequest[Worker]:
    """One worker."""
    return JsonRequest(
        method="GET", path=f"/workers/{quote_path(worker_id)}", read=Worker.from_json
    )


def drain_worker(worker_id: str, drain_timeout_s: float | None) -> JsonRequest[Worker]:
    """Ask a worker to return its jobs to the queue and to exit."""
    return JsonRequest(
        method="POST",
        path=f"/workers/{quote_path(worker_id)}/drain",
        body=None if drain_timeout_s is None else {"timeout_s": drain_timeout_s},
        headers=idempotency_header(),
        read=Worker.from_json,
    )


def list_kinds(name: str) -> JsonRequest[list[SpecKind]]:
    """The kinds of a part of a spec: of `models`, `layers`, `losses`, …, as its path is named."""
    return JsonRequest(method="GET", path=f"/{name}", read=items_of(SpecKindList))


def list_policies() -> JsonRequest[list[Policy]]:
    """The precision policies that a spec can name."""
    return JsonRequest(method="GET", path="/policies", read=items_of(PolicyList))


def get_version() -> JsonRequest[ServerVersion]:
    """The versions of the server and its API."""
    return JsonRequest(method="GET", path="/version", read=ServerVersion.from_json)


def get_session() -> JsonRequest[Session]:
    """The name, role and project of the token."""
    return JsonRequest(method="GET", path="/session", read=Session.from_json)


def list_tokens(limit: int, cursor: str | None) -> JsonRequest[TokenList]:
    """A page of the tokens, without their secrets, which the server does not store."""
    place = params(limit=limit, cursor=cursor)
    return JsonRequest(method="GET", path="/tokens", params=place, read=TokenList.from_json)


def create_token(token: Mapping[str, Any]) -> JsonRequest[CreatedToken]:
    """Create a token; a retry with the same key returns the same secret."""
    return JsonRequest(
        method="POST",
        path="/tokens",
        body=token,
        headers=idempotency_header(),
        read=CreatedToken.from_json,
    )


def revoke_token(token_id: str) -> JsonRequest[None]:
    """Revoke a token immediately."""
    path = f"/tokens/{quote_path(token_id)}"
    return JsonRequest(method="DELETE", path=path, headers=idempotency_header(), read=parse_nothing)


def rotate_token(token_id: str, grace_s: float) -> JsonRequest[CreatedToken]:
    """Give a token another secret; a retry with the same key returns the same one."""
    return JsonRequest(
        method="POST",
        path=f"/tokens/{quote_path(token_id)}/rotate",
        body={"grace_s": grace_s},
        headers=idempotency_header(),
        read=CreatedToken.from_json,
    )


def list_people(limit: int, cursor: str | None) -> JsonRequest[PersonList]:
    """A page of the people who have signed in with the provider."""
    place = params(limit=limit, cursor=cursor)
    return JsonRequest(method="GET", path="/people", params=place, read=PersonList.from_json)


def end_access(person_id: str) -> JsonRequest[None]:
    """End the sessions of a person, and revoke its tokens."""
    path = f"/people/{quote_path(person_id)}"
    return JsonRequest(method="DELETE", path=path, headers=idempotency_header(), read=parse_nothing)


def end_person_session(person_id: str, session_id: str) -> JsonRequest[None]:
    """Sign a person out of one browser."""
    path = f"/people/{quote_path(person_id)}/sessions/{quote_path(session_id)}"
    return JsonRequest(method="DELETE", path=path, headers=idempotency_header(), read=parse_nothing)


def list_projects() -> JsonRequest[list[Project]]:
    """All projects."""
    return JsonRequest(method="GET", path="/projects", read=items_of(ProjectList))


def change_project(name: str, changes: Mapping[str, float | None]) -> JsonRequest[Project]:
    """Change quotas or the weight of a project; it is created if it does not exist."""
    return JsonRequest(
        method="PATCH",
        path=f"/projects/{quote_path(name)}",
        body=changes,
        headers=idempotency_header(),
        read=Project.from_json,
    )


def get_retention(project: str) -> JsonRequest[ProjectRetention]:
    """The retention rules of a project."""
    return JsonRequest(method="GET", path=_retention(project), read=ProjectRetention.from_json)


def replace_retention(
    project: str, rules: Sequence[Mapping[str, Any]]
) -> JsonRequest[ProjectRetention]:
    """Set the retention rules of a project."""
    return JsonRequest(
        method="PUT",
        path=_retention(project),
        body={"rules": list(rules)},
        headers=idempotency_header(),
        read=ProjectRetention.from_json,
    )


def preview_retention(
    project: str, rules: Sequence[Mapping[str, Any]] | None
) -> JsonRequest[RetentionPreview]:
    """What these rules, or those of the project, would delete."""
    return JsonRequest(
        method="POST",
        path=f"{_retention(project)}/preview",
        body=None if rules is None else {"rules": list(rules)},
        is_read_only=True,
        read=RetentionPreview.from_json,
    )


def remove_retention(project: str) -> JsonRequest[None]:
    """Remove the retention rules of a project."""
    return JsonRequest(
        method="DELETE",
        path=_retention(project),
        headers=idempotency_header(),
        read=parse_nothing,
    )


def _retention(project: str) -> str:
    return f"/projects/{quote_path(project)}/retention"


def list_audit(
    limit: int,
    cursor: str | None,
    *,
    action: str | None,
    project: str | None,
    token_id: str | None,
) -> JsonRequest[AuditPage]:
    """A page of the audit log."""
    return JsonRequest(
        method="GET",
        path="/audit",
        params=params(
            action=action, project=project, token_id=token_id, limit=limit, cursor=cursor
        ),
        read=AuditPage.from_json,
    )

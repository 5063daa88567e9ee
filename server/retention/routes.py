"""Set, show, preview and remove the retention rules of a project."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Depends, Path, Response
from sqlalchemy.orm import Session

from ampspec.api.projects import ProjectName
from ampspec.api.retention import (
    ProjectRetention,
    RetentionChanges,
    RetentionMatch,
    RetentionPreview,
    RetentionPreviewRequest,
    RetentionRule,
)
from server.deps import (
    ActorDep,
    DatabaseDep,
    PrincipalDep,
    ProjectAdminDep,
    check_administers,
)
from server.documentation.openapi import problems
from server.errors import Forbidden, NotFound
from server.http.access.principal import Principal
from server.http.request_body import body_of
from server.http.responses import to_response
from server.http.router import api_router
from server.idempotency import IdempotentRequestDep, respond_once
from store import tables
from store.access import audit, projects
from store.access.idempotency import StoredResponse
from store.retention import rules as retention_rules
from store.retention import selection

router = api_router("/projects/{name}/retention", tags=["access"])

Name = Annotated[ProjectName, Path(description="The project's name.")]
RulesBody = Annotated[
    RetentionChanges, Depends(body_of(RetentionChanges, "All rules of the project."))
]
PreviewBody = Annotated[
    RetentionPreviewRequest,
    Depends(body_of(RetentionPreviewRequest, "The rules to preview.", required=False)),
]


@router.get("", summary="Read the retention rules of a project", responses=problems(404))
def read(name: Name, principal: PrincipalDep, database: DatabaseDep) -> ProjectRetention:
    """Read what is deleted of the project's jobs, and when."""
    with database.read() as session:
        if not principal.sees(name):
            raise _no_project(name)
        _check_project(session, name)
        return _answer(name, retention_rules.get(session, name))


@router.put(
    "",
    summary="Replace the retention rules of a project",
    response_model=ProjectRetention,
    responses=problems(403, 404, 422),
)
def replace(
    *,
    name: Name,
    changes: RulesBody,
    admin: ProjectAdminDep,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Set the rules. They are applied each hour, first an hour from now: preview them before."""
    check_administers(admin, name)

    def make(session: Session) -> StoredResponse:
        _check_project(session, name)
        _check_audit_rules(session, admin, name, changes.rules)
        row = retention_rules.replace(session, name, changes.rules, actor.token_name)
        data = changes.model_dump(mode="json")
        audit.record(session, actor, "retention.update", name, project=name, **data)
        return StoredResponse(200, {}, _answer(name, row).model_dump_json())

    return to_response(respond_once(database, idempotent_request, make))


@router.delete(
    "",
    summary="Remove the retention rules of a project",
    status_code=204,
    response_class=Response,
    responses=problems(403, 422),
)
def remove(
    *,
    name: Name,
    admin: ProjectAdminDep,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Remove all rules: nothing more is deleted. Idempotent."""
    check_administers(admin, name)

    def make(session: Session) -> StoredResponse:
        _check_audit_rules(session, admin, name, ())
        if retention_rules.remove(session, name):
            audit.record(session, actor, "retention.remove", name, project=name)
        return StoredResponse(204, {}, "")

    return to_response(respond_once(database, idempotent_request, make))


@router.post("/preview", summary="Preview retention rules", responses=problems(403, 404, 422))
def preview(
    name: Name, admin: ProjectAdminDep, database: DatabaseDep, body: PreviewBody
) -> RetentionPreview:
    """What the rules of the body, or without one those of the project, would delete now."""
    check_administers(admin, name)
    with database.read() as session:
        _check_project(session, name)
        rules = body.rules
        if rules is None:
            rules = retention_rules.parsed(retention_rules.get(session, name))
        matches = [(rule, selection.preview(session, name, rule)) for rule in rules]
    items = [RetentionMatch(rule=rule, **_fields(match)) for rule, match in matches]
    return RetentionPreview(project=name, items=items)


def _check_audit_rules(
    session: Session, admin: Principal, name: str, rules: Sequence[RetentionRule]
) -> None:
    """Raise Forbidden if the admin of a project changes what is kept of its audit log."""
    stored = retention_rules.parsed(retention_rules.get(session, name))
    if admin.is_project_admin and _of_audit(stored) != _of_audit(rules):
        raise Forbidden(
            "Expected the rules of the audit log as they are: only an admin of all projects "
            "changes what is kept of it."
        )


def _of_audit(rules: Sequence[RetentionRule]) -> list[RetentionRule]:
    return [rule for rule in rules if rule.delete == "audit"]


def _check_project(session: Session, name: str) -> None:
    if projects.get(session, name) is None:
        raise _no_project(name)


def _no_project(name: str) -> NotFound:
    return NotFound(f"There is no project {name!r}.")


def _fields(match: selection.Match) -> dict[str, Any]:
    return {"count": match.count, "size_bytes": match.size_bytes, "ids": list(match.ids)}


def _answer(name: str, row: tables.ProjectRetention | None) -> ProjectRetention:
    return ProjectRetention(
        project=name,
        rules=retention_rules.parsed(row),
        changed_at=row.changed_at if row is not None else None,
        changed_by=row.changed_by if row is not None else None,
        next_run_at=row.next_run_at if row is not None else None,
    )

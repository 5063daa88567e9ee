"""Read the audit log."""

from typing import Annotated

from fastapi import Query

from ampspec.api.audit import AuditEntry, AuditPage
from server.deps import DatabaseDep, ProjectAdminDep, check_administers
from server.documentation.openapi import problems
from server.http.router import api_router
from server.row_models import from_row
from store.access import audit

router = api_router("/audit", tags=["access"])

Cursor = Annotated[
    str | None,
    Query(pattern="^[1-9][0-9]{0,17}$", description="The `next_cursor` of a page."),
]
Limit = Annotated[int, Query(ge=1, le=100)]
FilterText = Annotated[str | None, Query(max_length=64, pattern=r"^[^\x00]*$")]


@router.get("", summary="Read the audit log", responses=problems(403, 422))
def page(
    *,
    admin: ProjectAdminDep,
    database: DatabaseDep,
    action: FilterText = None,
    project: FilterText = None,
    token_id: FilterText = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> AuditPage:
    """Read the audit log, newest first; an admin of a project reads what was done in it."""
    if admin.is_project_admin:
        project = project or admin.project
        check_administers(admin, project)
    filters = {"action": action, "project": project, "token_id": token_id}
    before_id = int(cursor) if cursor is not None else None
    with database.read() as session:
        rows = audit.page(session, **filters, before_id=before_id, limit=limit + 1)
        items = [from_row(AuditEntry, row) for row in rows[:limit]]
    return AuditPage(items=items, next_cursor=str(items[-1].id) if len(rows) > limit else None)

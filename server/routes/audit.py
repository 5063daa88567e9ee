"""Read who did what."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from server.deps import AdminDep, DatabaseDep
from server.openapi import problems
from server.views import Record, View
from store import audit

router = APIRouter(prefix="/audit", tags=["access"])

Cursor = Annotated[
    str | None,
    Query(pattern="^[1-9][0-9]{0,17}$", description="`next_cursor` of a page."),
]
Limit = Annotated[int, Query(ge=1, le=100)]
Word = Annotated[str | None, Query(max_length=64, pattern=r"^[^\x00]*$")]


class AuditEntry(Record):
    """A change that somebody asked for, and that was made."""

    id: int
    at: datetime
    action: str = Field(description="As in `job.cancel` and `token.create`.")
    target: str | None = Field(description="The id or the name of what was changed.")
    project: str | None = Field(description="The project that it belongs to.")
    token_id: str | None
    token_name: str | None
    address: str | None = Field(description="The client's, as the server saw it.")
    request_id: str | None
    data: dict[str, Any] | None


class AuditPage(View):
    """Some entries, the newest first; `next_cursor` leads to older ones."""

    items: list[AuditEntry]
    next_cursor: str | None


@router.get("", summary="Read the audit", responses=problems(403, 422))
def page(
    *,
    _admin: AdminDep,
    database: DatabaseDep,
    action: Word = None,
    project: Word = None,
    token_id: Word = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> AuditPage:
    """Read who did what, the newest first."""
    wanted = {"action": action, "project": project, "token_id": token_id}
    before = int(cursor) if cursor is not None else None
    with database.read() as session:
        rows = audit.page(session, **wanted, before=before, limit=limit + 1)
        items = [AuditEntry.read(row) for row in rows[:limit]]
    return AuditPage(items=items, next_cursor=str(items[-1].id) if len(rows) > limit else None)

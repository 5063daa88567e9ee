"""List projects, and set their quotas."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Path, Response
from sqlalchemy.orm import Session

from ampspec.api.projects import REPLACED_QUOTAS, Project, ProjectList, ProjectName, Quotas
from server.deps import ActorDep, AdminDep, DatabaseDep, ProjectAdminDep
from server.documentation.openapi import problems
from server.http.json_body import JsonRoute
from server.http.responses import to_response
from server.http.router import api_router
from server.idempotency import IdempotentRequestDep, respond_once
from server.row_models import project_from_row
from store import tables
from store.access import audit, projects
from store.access.audit import Actor
from store.access.idempotency import IdempotentRequest, StoredResponse
from store.access.projects import ProjectLoad
from store.database import Database
from store.files import artifact_quota, datasets
from store.scheduling import fair_share

router = api_router("/projects", tags=["access"], route_class=JsonRoute)


@router.get("", summary="List projects", responses=problems(403))
def listing(admin: ProjectAdminDep, database: DatabaseDep) -> ProjectList:
    """List the projects with their quotas and what they use of them.

    For an admin of a project that one.
    """
    with database.read() as session:
        rows = [row for row in projects.listing(session) if admin.administers(row.name)]
        return ProjectList(items=_with_use(session, rows))


Name = Annotated[ProjectName, Path(description="The project's name.")]


@router.patch(
    "/{name}",
    summary="Change the quotas of a project",
    response_model=Project,
    responses=problems(403, 422),
)
def change(
    *,
    name: Name,
    quotas: Quotas,
    _admin: AdminDep,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Set quotas and weight; those left out stay. A project that does not exist is created."""
    changes = quotas.model_dump(exclude_unset=True)
    return _update(database, idempotent_request, actor, name, changes)


@router.put(
    "/{name}",
    summary="Replace the quotas of a project",
    response_model=Project,
    responses=problems(403, 422),
)
def replace(
    *,
    name: Name,
    quotas: Quotas,
    _admin: AdminDep,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Set quotas, for older clients; PATCH is better.

    Of queued jobs, running jobs and dataset bytes, those left out have no limit. A project that
    does not exist is created.
    """
    changes = quotas.model_dump(include=set(REPLACED_QUOTAS))
    changes |= quotas.model_dump(exclude_unset=True)
    return _update(database, idempotent_request, actor, name, changes)


def _update(
    database: Database,
    idempotent_request: IdempotentRequest | None,
    actor: Actor,
    name: str,
    changes: Mapping[str, Any],
) -> Response:
    def make(session: Session) -> StoredResponse:
        row = projects.update(session, name, changes)
        audit.record(session, actor, "project.update", name, project=name, **changes)
        [project] = _with_use(session, [row])
        return StoredResponse(200, {}, project.model_dump_json())

    return to_response(respond_once(database, idempotent_request, make))


def _with_use(session: Session, rows: Sequence[tables.Project]) -> list[Project]:
    """The projects, with what they use of their quotas."""
    names = [row.name for row in rows]
    load = projects.load_by_project(session)
    used = datasets.used_bytes(session, *names)
    artifact_bytes = artifact_quota.stored_bytes(session)
    shares = fair_share.project_shares(session.connection(), names)
    return [
        project_from_row(
            row,
            load.get(row.name, ProjectLoad()),
            shares[row.name],
            dataset_bytes=used.get(row.name, 0),
            artifact_bytes=artifact_bytes.get(row.name, 0),
        )
        for row in rows
    ]

"""List projects, and set their quotas."""

from typing import Annotated

from fastapi import APIRouter, Path, Response
from sqlalchemy.orm import Session

from ampcore.api.projects import Project, ProjectList, ProjectName, Quotas
from server.deps import ActorDep, AdminDep, DatabaseDep
from server.http.json_body import JsonRoute
from server.http.responses import to_response
from server.idempotency import IdempotentRequestDep, respond_once
from server.openapi import problems
from server.row_models import project_from_row
from store import audit, datasets, projects
from store.idempotency import StoredResponse
from store.projects import ProjectLoad

router = APIRouter(prefix="/projects", tags=["access"], route_class=JsonRoute)


@router.get("", summary="List projects", responses=problems(403))
def listing(_admin: AdminDep, database: DatabaseDep) -> ProjectList:
    """List all projects with their quotas and what they use of them."""
    with database.read() as session:
        load = projects.load_by_project(session)
        used = datasets.used_bytes(session)
        rows = projects.listing(session)
        return ProjectList(
            items=[
                project_from_row(row, load.get(row.name, ProjectLoad()), used.get(row.name, 0))
                for row in rows
            ]
        )


@router.put(
    "/{name}",
    summary="Set the quotas of a project",
    response_model=Project,
    responses=problems(403, 422),
)
def update(
    *,
    name: Annotated[ProjectName, Path(description="The project's name.")],
    quotas: Quotas,
    _admin: AdminDep,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Set all quotas; a project that does not exist is created."""
    limits = quotas.model_dump()

    def make(session: Session) -> StoredResponse:
        row = projects.update(session, name, limits)
        audit.record(session, actor, "project.update", name, project=name, **limits)
        load = projects.load_by_project(session).get(name, ProjectLoad())
        used = datasets.used_bytes(session, name).get(name, 0)
        project = project_from_row(row, load, used)
        return StoredResponse(200, {}, project.model_dump_json())

    return to_response(respond_once(database, idempotent_request, make))

"""The projects and their quotas."""

from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy.orm import Session

from server.deps import ActorDep, AdminDep, DatabaseDep
from server.http.json_route import JsonRoute
from server.http.responses import response_of
from server.jobs.idempotency import KeyedDep, answer_once
from server.openapi import problems
from server.views import View
from store import audit, projects, tables
from store.idempotency import Answer
from store.projects import Load

router = APIRouter(prefix="/projects", tags=["access"], route_class=JsonRoute)

ProjectName = Annotated[str, StringConstraints(pattern=f"^{projects.NAME}$")]
Quota = Annotated[int, Field(ge=0, le=1_000_000)]


class Quotas(BaseModel):
    """How many jobs of a project may wait and run at one time; null: as many as there are."""

    model_config = ConfigDict(extra="forbid")

    max_queued: Quota | None = None
    max_running: Quota | None = None


class Project(View):
    """A project, its quotas, and how much of them is used."""

    name: str
    max_queued: int | None
    max_running: int | None
    queued: int
    running: int
    created_at: datetime

    @classmethod
    def of(cls, row: tables.Project, load: Load) -> Self:
        """The project of a row."""
        own = {name: getattr(row, name) for name in ("name", "max_queued", "max_running")}
        return cls(**own, created_at=row.created_at, **vars(load))


class ProjectList(View):
    """Every project, by name."""

    items: list[Project]


@router.get("", summary="List projects", responses=problems(403))
def listing(_admin: AdminDep, database: DatabaseDep) -> ProjectList:
    """List every project with its quotas, and how many of its jobs wait and run."""
    with database.read() as session:
        load = projects.load(session)
        rows = projects.listing(session)
        return ProjectList(items=[Project.of(row, load.get(row.name, Load())) for row in rows])


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
    keyed: KeyedDep,
) -> Response:
    """Set both quotas; a project that is not there yet is made."""
    told = quotas.model_dump()

    def make(session: Session) -> Answer:
        row = projects.update(session, name, told)
        audit.note(session, actor, "project.update", name, project=name, **told)
        project = Project.of(row, projects.load(session).get(name, Load()))
        return Answer(200, {}, project.model_dump_json())

    return response_of(answer_once(database, keyed, make))

"""Who trains here, and how one of them is asked to end."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from sqlalchemy.orm import Session

from server.deps import ActorDep, AdminDep, DatabaseDep, PrincipalDep
from server.errors import Conflict, NotFound
from server.http.etag import conditional_on_body
from server.http.parameters import is_storable
from server.http.responses import ModelResponse, response_of
from server.jobs.idempotency import KeyedDep, answer_once
from server.openapi import TAGGED, problems
from server.views import Worker, WorkerList
from store import audit, workers
from store.idempotency import Answer

router = APIRouter(prefix="/workers", tags=["workers"])

WorkerId = Annotated[str, Path(description="The worker's id.")]


@router.get("", summary="List workers", response_model=WorkerList, responses=TAGGED)
def listing(database: DatabaseDep, principal: PrincipalDep, request: Request) -> Response:
    """List every worker, the newest first, with what it runs of the jobs that the token sees."""
    with database.read() as session:
        jobs = workers.jobs_by_worker(session, project=principal.sees)
        found = workers.listing(session)
        items = [Worker.of(worker, state, jobs.get(worker.id, [])) for worker, state in found]
    return conditional_on_body(request, ModelResponse(WorkerList(items=items)))


@router.get(
    "/{worker_id}",
    summary="Read a worker",
    response_model=Worker,
    responses={**TAGGED, **problems(404)},
)
def read(
    worker_id: WorkerId, database: DatabaseDep, principal: PrincipalDep, request: Request
) -> Response:
    """Read a worker as it was last heard of."""
    with database.read() as session:
        worker = _told(session, worker_id, principal.sees)
    return conditional_on_body(request, ModelResponse(worker))


@router.post(
    "/{worker_id}/drain",
    summary="Drain a worker",
    status_code=202,
    response_model=Worker,
    responses=problems(404, 409),
)
def drain(
    worker_id: WorkerId,
    database: DatabaseDep,
    _admin: AdminDep,
    actor: ActorDep,
    keyed: KeyedDep,
) -> Response:
    """Ask a worker to take no more, to give its jobs back behind a checkpoint, and to end."""

    def make(session: Session) -> Answer:
        if _told(session, worker_id).state == "stopped":
            raise Conflict(f"The worker {worker_id!r} has stopped already.")
        workers.request_drain(session, worker_id)
        audit.note(session, actor, "worker.drain", worker_id)
        return Answer(202, {}, _told(session, worker_id).model_dump_json())

    return response_of(answer_once(database, keyed, make))


def _told(session: Session, worker_id: str, project: str | None = None) -> Worker:
    """The worker of that id, with its jobs of one project or of all. Raises NotFound."""
    found = workers.get(session, worker_id) if is_storable(worker_id) else None
    if found is None:
        raise NotFound(f"There is no worker {worker_id[:40]!r}.")
    return Worker.of(*found, workers.jobs_by_worker(session, project=project).get(worker_id, []))

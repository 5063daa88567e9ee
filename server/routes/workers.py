"""List, read and drain workers."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from sqlalchemy.orm import Session

from ampcore.api.workers import Worker, WorkerList
from server.deps import ActorDep, AdminDep, DatabaseDep, PrincipalDep
from server.errors import Conflict, NotFound
from server.http.etag import respond_unless_body_cached
from server.http.parameters import is_storable
from server.http.responses import ModelResponse, to_response
from server.idempotency import IdempotentRequestDep, respond_once
from server.openapi import ETAG_RESPONSES, problems
from server.row_models import worker_from_row
from store import audit, workers
from store.idempotency import StoredResponse

router = APIRouter(prefix="/workers", tags=["workers"])

WorkerId = Annotated[str, Path(description="The worker's id.")]


@router.get("", summary="List workers", response_model=WorkerList, responses=ETAG_RESPONSES)
def listing(database: DatabaseDep, principal: PrincipalDep, request: Request) -> Response:
    """List all workers, newest first, each with its running jobs that the token may see."""
    with database.read() as session:
        jobs = workers.jobs_by_worker(session, project=principal.visible_project)
        found = workers.listing(session)
        items = [worker_from_row(worker, state, jobs.get(worker.id, [])) for worker, state in found]
    return respond_unless_body_cached(request, ModelResponse(WorkerList(items=items)))


@router.get(
    "/{worker_id}",
    summary="Read a worker",
    response_model=Worker,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def read(
    worker_id: WorkerId, database: DatabaseDep, principal: PrincipalDep, request: Request
) -> Response:
    """Read the last reported state of a worker."""
    with database.read() as session:
        worker = _get_worker(session, worker_id, principal.visible_project)
    return respond_unless_body_cached(request, ModelResponse(worker))


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
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Ask a worker to take no new jobs, to checkpoint and requeue its jobs, and to exit."""

    def make(session: Session) -> StoredResponse:
        if _get_worker(session, worker_id).state == "stopped":
            raise Conflict(f"The worker {worker_id!r} has already stopped.")
        workers.request_drain(session, worker_id)
        audit.record(session, actor, "worker.drain", worker_id)
        return StoredResponse(202, {}, _get_worker(session, worker_id).model_dump_json())

    return to_response(respond_once(database, idempotent_request, make))


def _get_worker(session: Session, worker_id: str, project: str | None = None) -> Worker:
    """The worker with that id, with its jobs of one project or of all. Raises NotFound."""
    found = workers.get(session, worker_id) if is_storable(worker_id) else None
    if found is None:
        raise NotFound(f"There is no worker {worker_id[:40]!r}.")
    return worker_from_row(
        *found, workers.jobs_by_worker(session, project=project).get(worker_id, [])
    )

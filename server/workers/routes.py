"""List, read and drain workers."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Path, Request, Response
from sqlalchemy.orm import Session

from ampspec.api.workers import DrainOptions, UnsavedJob, Worker, WorkerList
from server.deps import ActorDep, AdminDep, DatabaseDep, PrincipalDep
from server.documentation.openapi import ETAG_RESPONSES, problems
from server.errors import Conflict, NotFound
from server.http.etag import respond_unless_body_cached
from server.http.newest_first import (
    Cursor,
    Limit,
    cursor_of,
    page_of,
    read_cursor,
    rows_to_read,
)
from server.http.parameters import is_storable
from server.http.responses import ModelResponse, to_response
from server.http.router import api_router
from server.idempotency import IdempotentRequestDep, respond_once
from server.row_models import worker_from_row
from store import workers
from store.access import audit
from store.access.idempotency import StoredResponse
from store.jobs import jobs
from store.jobs.resume_point import resume_point

router = api_router("/workers", tags=["workers"])

WorkerId = Annotated[str, Path(description="The worker's id.")]


@router.get("", summary="List workers", response_model=WorkerList, responses=ETAG_RESPONSES)
def listing(
    *,
    database: DatabaseDep,
    principal: PrincipalDep,
    request: Request,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Response:
    """List the workers, newest first, each with its running jobs that the token may see."""
    with database.read() as session:
        running = workers.jobs_by_worker(session, project=principal.visible_project)
        rows, has_more = page_of(
            workers.page(session, after_worker=read_cursor(cursor), limit=rows_to_read(limit)),
            limit,
        )
        job_ids = [row.job_id for row in rows if row.job_id is not None]
        visible = workers.visible_job_ids(session, job_ids, project=principal.visible_project)
        items = [
            worker_from_row(row, row.state, running.get(row.id, []), visible_jobs=visible)
            for row in rows
        ]
    next_cursor = cursor_of(items[-1].started_at, items[-1].id) if has_more else None
    page = WorkerList(items=items, next_cursor=next_cursor)
    return respond_unless_body_cached(request, ModelResponse(page))


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
    options: DrainOptions | None = None,
) -> Response:
    """Ask a worker to take no new jobs, to checkpoint and requeue its jobs, and to exit.

    `unsaved` in the response says what is trained again if it cannot store new checkpoints before
    the deadline.
    """
    timeout_s = options.timeout_s if options is not None else None

    def make(session: Session) -> StoredResponse:
        if _get_worker(session, worker_id).state == "stopped":
            raise Conflict(f"The worker {worker_id!r} has already stopped.")
        workers.request_drain(session, worker_id, timeout_s)
        audit.record(session, actor, "worker.drain", worker_id)
        return StoredResponse(202, {}, _get_worker(session, worker_id).model_dump_json())

    return to_response(respond_once(database, idempotent_request, make))


def _get_worker(session: Session, worker_id: str, project: str | None = None) -> Worker:
    """The worker with that id, with its jobs of one project or of all. Raises NotFound."""
    row_and_slots = workers.get(session, worker_id) if is_storable(worker_id) else None
    if row_and_slots is None:
        raise NotFound(f"There is no worker {worker_id[:40]!r}.")
    job_ids = workers.jobs_by_worker(session, project=project).get(worker_id, [])
    row, state = row_and_slots
    job_of_worker = [row.job_id] if row.job_id is not None else []
    visible = workers.visible_job_ids(session, job_of_worker, project=project)
    unsaved = _unsaved(session, job_ids)
    return worker_from_row(row, state, job_ids, unsaved, visible_jobs=visible)


def _unsaved(session: Session, job_ids: Sequence[str]) -> list[UnsavedJob]:
    """The jobs whose newest checkpoint is older than their last step."""
    unsaved = []
    for job_id in job_ids:
        job = jobs.get(session, job_id)
        point = resume_point(session, job) if job is not None else None
        if point is not None and point.trained_steps > (point.checkpoint_steps or 0):
            unsaved.append(
                UnsavedJob(
                    job=job_id, step=point.trained_steps, checkpoint_step=point.checkpoint_steps
                )
            )
    return unsaved

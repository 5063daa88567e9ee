"""Who trains here."""

from fastapi import APIRouter

from server.deps import DatabaseDep
from server.views import Worker, WorkerList
from store import tables, workers

router = APIRouter(prefix="/workers", tags=["workers"])


@router.get("", summary="List workers")
def listing(database: DatabaseDep) -> WorkerList:
    """List every worker, the newest first, with what it runs."""
    with database.read() as session:
        jobs = workers.jobs_by_worker(session)
        found = workers.listing(session)
        items = [_view(worker, state, jobs.get(worker.id, [])) for worker, state in found]
        return WorkerList(items=items)


def _view(worker: tables.Worker, state: str, jobs: list[str]) -> Worker:
    derived = {"state": state, "jobs": jobs}
    read = {name: getattr(worker, name) for name in Worker.model_fields if name not in derived}
    return Worker.model_validate({**read, **derived})

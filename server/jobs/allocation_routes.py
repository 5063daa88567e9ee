"""List the allocations of a job."""

from fastapi import Request, Response

from ampspec.api.job.allocations import Allocation, AllocationList
from server.deps import DatabaseDep, VisibleJobId
from server.documentation.openapi import ETAG_RESPONSES, problems
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse
from server.http.router import api_router
from server.row_models import from_row
from store import allocations

router = api_router("/jobs/{job_id}/allocations", tags=["jobs"])


@router.get(
    "",
    summary="List the allocations of a job",
    response_model=AllocationList,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def listing(job_id: VisibleJobId, database: DatabaseDep, request: Request) -> Response:
    """List what a batch system was asked for, oldest first; empty without a batch system."""
    with database.read() as session:
        rows = allocations.of_job(session, job_id)
        items = [from_row(Allocation, row) for row in rows]
    return respond_unless_body_cached(request, ModelResponse(AllocationList(items=items)))

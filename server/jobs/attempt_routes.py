"""List the attempts of a job."""

from fastapi import Request, Response

from ampspec.api.job.attempts import AttemptList
from server.deps import DatabaseDep, VisibleJobId
from server.documentation.openapi import ETAG_RESPONSES, problems
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse
from server.http.router import api_router
from server.row_models import attempt_from_row
from store.gangs import gang_members
from store.jobs import attempts

router = api_router("/jobs/{job_id}/attempts", tags=["jobs"])


@router.get(
    "",
    summary="List the attempts at a job",
    response_model=AttemptList,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def listing(job_id: VisibleJobId, database: DatabaseDep, request: Request) -> Response:
    """List the attempts at a job with their workers and outcomes."""
    with database.read() as session:
        members = gang_members.listing(session, job_id)
        items = [attempt_from_row(row, members) for row in attempts.listing(session, job_id)]
    return respond_unless_body_cached(request, ModelResponse(AttemptList(items=items)))

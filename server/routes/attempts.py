"""Read the attempts at a job."""

from fastapi import APIRouter, Request, Response

from server.deps import DatabaseDep, VisibleJobId
from server.http.etag import conditional_on_body
from server.http.responses import ModelResponse
from server.openapi import TAGGED, problems
from server.views import Attempt, AttemptList
from store import attempts

router = APIRouter(prefix="/jobs/{job_id}/attempts", tags=["jobs"])


@router.get(
    "",
    summary="List the attempts at a job",
    response_model=AttemptList,
    responses={**TAGGED, **problems(404)},
)
def listing(job_id: VisibleJobId, database: DatabaseDep, request: Request) -> Response:
    """List every time that a worker took a job, and how it ended."""
    with database.read() as session:
        items = [Attempt.read(row) for row in attempts.listing(session, job_id)]
    return conditional_on_body(request, ModelResponse(AttemptList(items=items)))

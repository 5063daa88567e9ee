"""Read the steps of a job."""

from typing import Any, Final

from fastapi import Request, Response

from ampspec.api.job.steps import Steps
from server.deps import JobId
from server.documentation.openapi import ETAG_RESPONSES, problems
from server.http.router import api_router
from server.telemetry.formats import FORMATS, JSON
from server.telemetry.steps_query import StepsQueryDep
from server.telemetry.steps_response import steps_response

router = api_router("/jobs/{job_id}/steps", tags=["steps"])

FILES: Final[dict[str, Any]] = {
    form.media_type: {"schema": {"type": "string", "format": "binary"}}
    for name, form in FORMATS.items()
    if name != JSON
}


@router.get(
    "",
    summary="Read the steps of a job",
    response_model=Steps,
    responses={**ETAG_RESPONSES, 200: {**ETAG_RESPONSES[200], "content": FILES}, **problems(404)},
)
async def read(job_id: JobId, query: StepsQueryDep, request: Request) -> Response:
    """Read every step in a range, exactly once, or the whole range downsampled.

    Downsampling hides no event: a point has the minimum, maximum, first, last and mean value, and
    the number of skipped steps; with `max_points` the skipped steps and the loss-scale changes are
    also listed individually. Formats other than JSON return the whole range.
    """
    return await steps_response(request, job_id, query)

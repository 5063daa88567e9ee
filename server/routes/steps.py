"""Read the steps of a job."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from server.deps import JobId
from server.openapi import TAGGED, problems
from server.telemetry.answers import answer
from server.telemetry.forms import FORMS, JSON
from server.telemetry.wanted import WantedDep
from server.views import Steps

router = APIRouter(prefix="/jobs/{job_id}/steps", tags=["steps"])

FILES: Final[dict[str, Any]] = {
    form.media_type: {"schema": {"type": "string", "format": "binary"}}
    for name, form in FORMS.items()
    if name != JSON
}


@router.get(
    "",
    summary="Read the steps of a job",
    response_model=Steps,
    responses={**TAGGED, 200: {**TAGGED[200], "content": FILES}, **problems(404)},
)
async def read(job_id: JobId, wanted: WantedDep, request: Request) -> Response:
    """Read every step in a range, exactly once, or the whole range in few points.

    No point hides an event: it tells the least and the greatest value, the first, the last and
    the mean, and how many steps were skipped; with `max_points` the skipped steps and the changes
    of the loss scale come along one by one. In any form but JSON all is told, however long.
    """
    return await answer(request, job_id, wanted)

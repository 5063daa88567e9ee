"""Compare jobs."""

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response

from server.comparing import reading
from server.comparing.asked import Asked, AskedDep
from server.comparing.views import Comparison
from server.deps import principal_of, services_of
from server.http.etag import conditional
from server.openapi import TAGGED, problems

router = APIRouter(prefix="/compare", tags=["compare"])


@router.get(
    "",
    summary="Compare jobs",
    response_model=Comparison,
    responses={**TAGGED, **problems(404)},
)
async def compare(asked: AskedDep, request: Request) -> Response:
    """Compare jobs: their steps in points of one grid, and what differs in specs and results."""
    # Like other reads of many steps: few of them at one time.
    return await run_sync(_answer, request, asked, limiter=services_of(request).step_readers)


def _answer(request: Request, asked: Asked) -> Response:
    with services_of(request).database.read() as session:
        found = reading.views_of(session, asked, principal_of(request).sees)

        def compared() -> Response:
            body = b"".join(reading.compare(session, asked, found))
            return Response(body, media_type="application/json")

        return conditional(request, reading.etag(session, asked, found), compared)

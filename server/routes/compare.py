"""Compare jobs."""

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response

from ampcore.api.comparison import Comparison
from server.comparison import response
from server.comparison.query import CompareQuery, CompareQueryDep
from server.deps import principal_of, services_of
from server.http.etag import respond_unless_cached
from server.openapi import ETAG_RESPONSES, problems

router = APIRouter(prefix="/compare", tags=["compare"])


@router.get(
    "",
    summary="Compare jobs",
    response_model=Comparison,
    responses={**ETAG_RESPONSES, **problems(404)},
)
async def compare(asked: CompareQueryDep, request: Request) -> Response:
    """Compare jobs: their steps in points of one grid, and what differs in specs and results."""
    # Limited, as other reads of many steps.
    return await run_sync(_answer, request, asked, limiter=services_of(request).step_readers)


def _answer(request: Request, asked: CompareQuery) -> Response:
    with services_of(request).database.read() as session:
        found = response.visible_jobs(session, asked, principal_of(request).visible_project)

        def compared() -> Response:
            body = b"".join(response.compare(session, asked, found))
            return Response(body, media_type="application/json")

        return respond_unless_cached(request, response.etag(session, asked, found), compared)

"""Compare jobs."""

from anyio.to_thread import run_sync
from fastapi import Request, Response

from ampspec.api.job.comparison import Comparison
from server.comparison import response
from server.comparison.query import CompareQuery, CompareQueryDep
from server.deps import principal_of, services_of
from server.documentation.openapi import ETAG_RESPONSES, problems
from server.http.etag import respond_unless_cached
from server.http.router import api_router
from store.cancellation import checked

router = api_router("/compare", tags=["compare"])


@router.get(
    "",
    summary="Compare jobs",
    response_model=Comparison,
    responses={**ETAG_RESPONSES, **problems(404)},
)
async def compare(query: CompareQueryDep, request: Request) -> Response:
    """Compare jobs: their steps on a common grid, and the differences of specs and results."""
    return await run_sync(_comparison, request, query)


def _comparison(request: Request, query: CompareQuery) -> Response:
    with services_of(request).database.read() as session:
        jobs = response.visible_jobs(session, query, principal_of(request))

        def compared() -> Response:
            body = b"".join(checked(response.compare(session, query, jobs)))
            return Response(body, media_type="application/json")

        return respond_unless_cached(request, response.etag(session, query, jobs), compared)

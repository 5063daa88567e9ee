"""Health and readiness checks, Prometheus metrics, and the version."""

from fastapi import Response

import ampspec
from ampspec.api.service import Health, ServerVersion
from server import schema
from server.deps import MetricsDep, ReadinessDep
from server.documentation.openapi import problems
from server.http.router import api_router, root_router
from server.metrics.registry import CONTENT_TYPE

root = root_router(tags=["health"])
router = api_router(tags=["health"])


@root.get("/healthz", summary="Check liveness")
async def alive() -> Health:
    """Respond as long as the process runs. Needs no token."""
    return Health(status="alive")


@root.get("/readyz", summary="Check readiness", responses=problems(503))
async def ready(readiness: ReadinessDep) -> Health:
    """Check database, Redis and storage; the 503 response names each that is unavailable.

    Needs no token. Requests within a second share one check; the storage is checked every minute,
    and every 5 s after an error.
    """
    await readiness.get()
    return Health(status="ready")


@root.get(
    "/metrics",
    summary="Read the metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(metrics: MetricsDep) -> Response:
    """Return the metrics of this server, the jobs and the workers in Prometheus's text format.

    Requests within a second share one result.
    """
    return Response(await metrics.rendered.get(), media_type=CONTENT_TYPE)


@router.get("/version", summary="Read the version")
def version() -> ServerVersion:
    """Return the versions of the server and the API, and the schema revision that it needs."""
    return ServerVersion(version=ampspec.__version__, api="v1", schema=schema.HEAD)

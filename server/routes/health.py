"""Health and readiness checks, Prometheus metrics, and the version."""

from fastapi import APIRouter, Response

import ampcore
from ampcore.api.service import Health, ServerVersion
from server import schema
from server.deps import DatabaseDep, DispatcherDep, MetricsDep, StorageDep
from server.metrics.registry import CONTENT_TYPE
from server.openapi import problems
from server.readiness import check

root = APIRouter(tags=["health"])
router = APIRouter(tags=["health"])


@root.get("/healthz", summary="Is the server alive?")
async def alive() -> Health:
    """Answers as long as the process runs. Needs no token."""
    return Health(status="alive")


@root.get("/readyz", summary="Can the server do its work?", responses=problems(503))
def ready(database: DatabaseDep, dispatcher: DispatcherDep, storage: StorageDep) -> Health:
    """Says whether database, Redis and storage are usable; 503 names each that is not.

    Needs no token.
    """
    check(database, dispatcher, storage)
    return Health(status="ready")


@root.get(
    "/metrics",
    summary="What Prometheus scrapes",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(metrics: MetricsDep) -> Response:
    """Numbers on this server, and on all jobs and workers, in Prometheus's text format."""
    return Response(metrics.render(), media_type=CONTENT_TYPE)


@router.get("/version", summary="Which version is this?")
def version() -> ServerVersion:
    """The version of the server, of the API, and of the database schema that it was made for."""
    return ServerVersion(version=ampcore.__version__, api="v1", schema=schema.HEAD)

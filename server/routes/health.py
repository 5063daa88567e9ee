"""Is the server alive, is it ready, and which one is it."""

from fastapi import APIRouter

import ampcore
from server import schema
from server.deps import DatabaseDep, WakeDep
from server.openapi import problems
from server.readiness import check
from server.views import Health, Version

root = APIRouter(tags=["health"])
router = APIRouter(tags=["health"])


@root.get("/healthz", summary="Is the server alive?")
async def alive() -> Health:
    """Answers as long as the process runs. Needs no token."""
    return Health(status="alive")


@root.get("/readyz", summary="Can the server do its work?", responses=problems(503))
def ready(database: DatabaseDep, wake: WakeDep) -> Health:
    """Says whether database and Redis answer; 503 tells which one fails. Needs no token."""
    check(database, wake)
    return Health(status="ready")


@router.get("/version", summary="Which version is this?")
def version() -> Version:
    """The version of the server, of the API, and of the database schema that it was made for."""
    return Version(version=ampcore.__version__, api="v1", schema=schema.HEAD)

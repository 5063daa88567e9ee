"""The application, wired together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import Depends, FastAPI

import ampcore
from server import errors, openapi
from server.auth import Door
from server.datasets import Datasets
from server.deps import Services
from server.limits import BodyLimit
from server.methods import HeadAsGet
from server.parameters import refuse_unknown
from server.reconcile import Reconciler
from server.responses import FiniteJSONResponse
from server.routes import catalog, docs, events, health, jobs, steps, workers
from server.settings import Settings
from server.wake import CeleryWake, Wake
from store.database import Database

THREADS: Final = 12
"""Requests answered at one time; each may hold a database connection."""
STEP_READERS: Final = 2


def create_app(settings: Settings, *, wake: Wake | None = None, reconcile: bool = True) -> FastAPI:
    """The HTTP application; it opens nothing before the first request or its start-up.

    Args:
        settings: where the database, Redis and the data folder are.
        wake: the queue to use instead of the one at `settings.redis_url`.
        reconcile: False leaves the background thread out.
    """
    database = Database(settings.database_url)
    services = Services(
        database,
        wake or CeleryWake(settings.redis_url),
        Datasets(settings.datasets_dir),
        CapacityLimiter(STEP_READERS),
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        reconciler = Reconciler(database, services.wake)
        if reconcile:
            reconciler.start()
        yield
        if reconcile:
            await anyio.to_thread.run_sync(reconciler.stop)
        services.wake.close()
        database.close()

    app = FastAPI(
        title="ampcore",
        version=ampcore.__version__,
        description=openapi.DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=FiniteJSONResponse,
        lifespan=lifespan,
    )
    app.state.services = services
    _add_routes(app)
    errors.install(app)
    openapi.install(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(Door, database=database)
    app.add_middleware(HeadAsGet)  # added last: the outermost
    return app


def _add_routes(app: FastAPI) -> None:
    checked = [Depends(refuse_unknown)]
    app.include_router(health.root, dependencies=checked)
    for module in (jobs, steps, events, workers, catalog, health):
        app.include_router(module.router, prefix="/api/v1", dependencies=checked)
    app.include_router(docs.router, prefix="/api/v1")
    app.mount(docs.ASSETS, docs.assets(), name="docs-assets")

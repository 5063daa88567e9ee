"""The application, wired together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Final

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import APIRouter, Depends, FastAPI
from starlette.types import ASGIApp

import ampcore
from server import dashboard, errors, openapi
from server.access.door import Door
from server.access.keyring import FAILURES, Keyring
from server.access.rate_limit import RateLimit, limit_of
from server.compact import Compactor
from server.datasets import Datasets
from server.deps import Services
from server.http.client_address import ClientAddress
from server.http.direct import DirectRoutes, direct_routes
from server.http.limits import BodyLimit, HeaderLimit
from server.http.methods import HeadAsGet
from server.http.parameters import refuse_unknown
from server.http.request_id import RequestId
from server.http.responses import FiniteJSONResponse
from server.intake import Intake
from server.metrics.registry import Metrics
from server.metrics.request_times import RequestTimes
from server.reads import Reads
from server.reconcile import Reconciler
from server.routes import (
    artifacts,
    attempts,
    audit,
    catalog,
    compare,
    docs,
    events,
    health,
    jobs,
    logs,
    projects,
    session,
    steps,
    stream,
    tokens,
    workers,
)
from server.settings import Settings
from server.streaming.bells import listen
from server.wake import CeleryWake, Wake
from service.bells import Bell
from service.storage import Storage
from store.database import Database

THREADS: Final = 12
"""Requests answered at one time; each may hold a database connection."""
STEP_READERS: Final = 2


def create_app(
    settings: Settings,
    *,
    wake: Wake | None = None,
    reconcile: bool = True,
    database: Database | None = None,
) -> FastAPI:
    """The HTTP application; it opens nothing before the first request or its start-up.

    Args:
        settings: where the database, Redis and the data folder are.
        wake: the queue to use instead of the one at `settings.redis_url`.
        reconcile: False leaves the background threads out.
        database: the database to use instead of a new one at `settings.database_url`.
    """
    database = database or Database(settings.database_url)
    wake = wake or CeleryWake(settings.redis_url)
    storage = Storage(settings.artifacts_url)
    reconciler = Reconciler(database, wake, storage=storage, lease_s=settings.lease_s)
    compactor = Compactor(database)
    datasets = Datasets(settings.datasets_dir)
    services = Services(
        database,
        wake,
        Bell(settings.redis_url),
        datasets,
        CapacityLimiter(STEP_READERS),
        storage,
        Keyring(database, RateLimit(FAILURES)),
        Metrics(database, reconciler),
        Reads(database),
        Intake(database, datasets, wake),
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        if reconcile:
            reconciler.start()
            compactor.start()
        listening = asyncio.create_task(listen(settings.redis_url, services.streams.bells))
        yield
        listening.cancel()
        if reconcile:
            await anyio.to_thread.run_sync(compactor.stop)
            await anyio.to_thread.run_sync(reconciler.stop)
        wake.close()
        services.bell.close()
        database.close()

    app = _Application(
        title="ampcore",
        version=ampcore.__version__,
        description=openapi.DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=FiniteJSONResponse,
        lifespan=lifespan,
        routes=_router().routes,
    )
    app.state.services = services
    app.state.reconciler = reconciler
    app.mount(docs.ASSETS, docs.assets(), name="docs-assets")
    dashboard.install(app)
    errors.install(app)
    openapi.install(app)
    app.add_middleware(DirectRoutes, routes=direct_routes(jobs.router, "/api/v1", jobs.BUSIEST))
    app.add_middleware(BodyLimit)
    limit = limit_of(settings.rate_limit)
    app.add_middleware(Door, keyring=services.keyring, limit=limit)
    app.add_middleware(HeaderLimit)
    app.add_middleware(RequestTimes, times=services.metrics.request_times)
    app.add_middleware(HeadAsGet)
    # Added last: the outermost, so that all others see the client and not the proxy.
    app.add_middleware(ClientAddress, trusted=settings.trusted_proxies)
    return app


class _Application(FastAPI):
    def build_middleware_stack(self) -> ASGIApp:
        # Around Starlette's own outermost part, which answers what nobody expected.
        return RequestId(super().build_middleware_stack())


@cache
def _router() -> APIRouter:
    """The routes of the API. They hold no state, and FastAPI takes a while to analyse them."""
    router = APIRouter(default_response_class=FiniteJSONResponse)
    checked = [Depends(refuse_unknown)]
    # In the order in which a request looks for its route: what is asked most comes first.
    for module in (jobs, attempts, steps, events, workers, catalog, health):
        router.include_router(module.router, prefix="/api/v1", dependencies=checked)
    for module in (logs, stream, artifacts, compare, session, tokens, projects, audit):
        router.include_router(module.router, prefix="/api/v1", dependencies=checked)
    router.include_router(health.root, dependencies=checked)
    router.include_router(docs.router, prefix="/api/v1")
    return router

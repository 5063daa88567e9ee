"""Build the FastAPI application: services, middleware, routes, background threads."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Final

import anyio.to_thread
from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

import ampspec
from infra import traces
from infra.notify import Notifier
from infra.storage import Storage
from infra.storage_check import StorageCheck
from server import dashboard
from server.accounts import audit_routes as audit
from server.accounts import people_routes as people
from server.accounts import project_routes as projects
from server.accounts import session_routes as session
from server.accounts import token_routes as tokens
from server.background.compactor import Compactor
from server.background.counter import ServiceCounter
from server.background.file_remover import FileRemover
from server.background.notification_sender import NotificationSender
from server.background.reconciler import Reconciler
from server.background.retention_runner import RetentionRunner
from server.background.study_runner import StudyRunner
from server.catalog import routes as catalog
from server.comparison import routes as compare
from server.data_root import DataRoot
from server.datasets import routes as datasets
from server.datasets import upload_routes as uploads
from server.datasets.uploads import Uploads
from server.dispatch import CeleryDispatcher, Dispatcher
from server.documentation import openapi
from server.documentation import routes as docs
from server.event_log import event_routes as events
from server.event_log import log_routes as logs
from server.event_log import stream_routes as stream
from server.files import routes as files
from server.files.file_store import FileStore
from server.health import routes as health
from server.health.readiness import check_readiness
from server.http import problem_responses
from server.http.access.auth_middleware import AuthMiddleware
from server.http.access.authenticator import FAILURE_RATE, Authenticator
from server.http.access.rate_limit import RateLimit
from server.http.access.shared_rate_limit import rate_limit_from_setting, share_counts
from server.http.admission.middleware import AdmissionMiddleware
from server.http.admission.shared_result import SharedResult
from server.http.client_address import ClientAddress
from server.http.limits import BodyLimit, HeaderLimit
from server.http.methods import HeadAsGet
from server.http.receive_body import BodyReceiver, delete_leftovers
from server.http.request_id import RequestId
from server.http.responses import FiniteJSONResponse
from server.http.streaming.subscribe import relay_notifications
from server.jobs import allocation_routes as allocations
from server.jobs import artifact_routes as artifacts
from server.jobs import attempt_routes as attempts
from server.jobs import bulk_routes as bulk_jobs
from server.jobs import routes as jobs
from server.jobs.job_reader import JobReader
from server.jobs.job_watcher import JobWatcher
from server.metrics.registry import Metrics
from server.metrics.request_times import RequestTimes
from server.models import alias_routes as model_aliases
from server.models import routes as models
from server.models import version_routes as model_versions
from server.notifications import delivery_routes as deliveries
from server.notifications import routes as notifications
from server.notifications.channels import ChannelSettings
from server.notifications.deliverer import Deliverer
from server.retention import routes as retention
from server.services import Services
from server.settings import Settings
from server.sign_on import routes as sign_in
from server.sign_on.config import ProviderConfig
from server.sign_on.sign_on import SignOn
from server.studies import routes as studies
from server.studies.planner import Planner, ProcessPlanner
from server.studies.progress import StudyProgress
from server.submissions import explanation_routes as explanations
from server.submissions.submission import JobSubmitter
from server.telemetry import evaluation_routes as evaluations
from server.telemetry import range_routes as ranges
from server.telemetry import step_routes as steps
from server.tracked_runs import image_routes as run_images
from server.tracked_runs import routes as runs
from server.workers import routes as workers
from store.database import Database, StatementLimits
from store.tables import new_id

MAX_THREADS: Final = 100
"""More than the groups of requests (server.http.admission.request_groups) have together."""
REQUEST_LIMITS: Final = StatementLimits(statement_s=15, lock_s=3)
"""A request fails with 503 rather than wait longer for one statement, or for one lock."""
BACKGROUND_LIMITS: Final = StatementLimits(statement_s=120, lock_s=10)
READING_METHODS: Final = ("GET", "HEAD", "OPTIONS")


def create_app(
    settings: Settings,
    *,
    dispatcher: Dispatcher | None = None,
    reconcile: bool = True,
    database: Database | None = None,
    new_planner: Callable[[], Planner] = ProcessPlanner,
) -> FastAPI:
    """Create the HTTP application; nothing is opened before its start-up or first request.

    Args:
        settings: where the database, Redis and the data folder are.
        dispatcher: the queue to use instead of the one at `settings.redis_url`.
        reconcile: False leaves the background threads out.
        database: the database to use instead of a new one at `settings.database_url`.
        new_planner: what plans studies: for requests, and for the study runner.
    """
    database = database or Database(settings.database_url, limits=REQUEST_LIMITS)
    background = database.with_limits(BACKGROUND_LIMITS)
    dispatcher = dispatcher or CeleryDispatcher(settings.redis_url)
    storage = Storage(settings.artifacts_url)
    storage_check = StorageCheck(storage)
    server_id = new_id()
    reconciler = Reconciler(background, dispatcher, lease_s=settings.lease_s, server_id=server_id)
    file_remover = FileRemover(background, storage, server_id)
    retention_runner = RetentionRunner(background, server_id, trash_s=settings.trash_s)
    data_root = DataRoot(settings.datasets_dir, settings.data_prefixes)
    provider = ProviderConfig.from_settings(settings)
    services = Services(
        database,
        dispatcher,
        Notifier(settings.redis_url),
        data_root,
        storage,
        Authenticator(database, RateLimit(FAILURE_RATE), issuer=settings.oidc_issuer),
        Metrics(database, reconciler),
        SharedResult(partial(check_readiness, database, dispatcher, storage_check)),
        JobReader(database),
        JobWatcher(database),
        JobSubmitter(database, data_root, dispatcher),
        Uploads(database, storage, settings.uploads_dir, settings.max_dataset_bytes),
        FileStore(database, storage),
        BodyReceiver(settings.uploads_dir),
        new_planner(),
        ChannelSettings.from_settings(settings),
        settings.trash_s,
        SignOn(provider, database) if provider is not None else None,
    )
    planner = new_planner()
    study_runner = StudyRunner(
        StudyProgress(
            background, dispatcher, services.notifier, services.submitter, storage, planner
        ),
        server_id=server_id,
    )

    in_background = (
        file_remover,  # stopped last: it may hang, and another server leads before
        reconciler,
        Compactor(background),
        ServiceCounter(background, server_id),
        retention_runner,
        study_runner,
        NotificationSender(Deliverer(background, services.channels)),
        storage_check,
    )
    threads = in_background if reconcile else ()
    limit = rate_limit_from_setting(settings.rate_limit)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = MAX_THREADS
        await anyio.to_thread.run_sync(delete_leftovers, settings.uploads_dir)
        for thread in threads:
            thread.start()
        tasks = [
            asyncio.create_task(
                relay_notifications(
                    settings.redis_url,
                    services.streams.subscriptions.notify,
                    services.job_watcher.notify,
                )
            ),
        ]
        if limit is not None:
            tasks.append(asyncio.create_task(share_counts(limit, settings.redis_url)))
        yield
        for task in tasks:
            task.cancel()
        for thread in reversed(threads):
            await anyio.to_thread.run_sync(thread.stop)
        planner.close()
        services.planner.close()
        dispatcher.close()
        services.notifier.close()
        database.close()
        background.close()

    app = _Application(
        title="ampcore",
        version=ampspec.__version__,
        description=openapi.DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=FiniteJSONResponse,
        lifespan=lifespan,
        routes=create_routes(),
        telemetry=_request_traces(),
    )
    app.state.services = services
    app.state.reconciler = reconciler
    app.state.file_remover = file_remover
    app.state.retention_runner = retention_runner
    app.state.storage_check = storage_check
    app.mount(docs.ASSETS, docs.assets(), name="docs-assets")
    dashboard.install(app)
    problem_responses.install(app)
    openapi.install(app)
    _add_middleware(app, settings, services, limit)
    return app


def _add_middleware(
    app: FastAPI, settings: Settings, services: Services, limit: RateLimit | None
) -> None:
    """Add the middleware, the innermost first."""
    app.add_middleware(AdmissionMiddleware)
    app.add_middleware(BodyLimit)
    app.add_middleware(AuthMiddleware, authenticator=services.authenticator, limit=limit)
    app.add_middleware(HeaderLimit)
    app.add_middleware(RequestTimes, times=services.metrics.request_times)
    app.add_middleware(HeadAsGet)
    # Added last, so outermost: all others see the client and not the proxy.
    app.add_middleware(ClientAddress, trusted=settings.trusted_proxies)


class _Application(FastAPI):
    def build_middleware_stack(self) -> ASGIApp:
        # Outside Starlette's ServerErrorMiddleware, which responds to unexpected errors.
        return RequestId(super().build_middleware_stack())


def _request_traces() -> TelemetryConfig:
    """Spans of the requests that change something, if this process sends traces.

    Reads are counted by `/metrics`; polls and streams would be nearly all spans.
    """
    return {
        "tracing": traces.provider() is not None,
        "tracer_provider": traces.provider(),
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "auto_configure": False,
        "exclude": lambda scope: scope.get("method") in READING_METHODS,
    }


@cache
def create_routes() -> list[BaseRoute]:
    """The routes of the API, in the order in which they are matched: the most frequent come first.

    Cached for tests, which create many applications.
    """
    modules = (
        *(jobs, bulk_jobs, runs, run_images, attempts, allocations, steps),
        *(evaluations, ranges, events, workers),
        *(catalog, health, explanations, logs, stream, artifacts, uploads, datasets),
        *(files, models, model_versions, model_aliases),
        *(compare, studies, notifications, deliveries, retention),
        *(session, tokens, people, projects, audit, sign_in, docs),
    )
    routers = [*(module.router for module in modules), sign_in.callback_router, health.root]
    return [route for router in routers for route in router.routes]

"""The Prometheus registry: metrics of this process, and of the service from the database."""

import logging
from collections.abc import Iterator
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

import ampspec
from server import schema
from server.http.admission.shared_result import SharedResult
from server.metrics.job_metrics import JobMetrics
from server.metrics.request_times import histogram
from server.metrics.worker_metrics import WorkerMetrics
from store.database import Database

log = logging.getLogger(__name__)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class ReconcilerStatus(Protocol):
    """The measured properties of the reconciler (`server.background.reconciler`)."""

    @property
    def last_success_at(self) -> float | None:
        """Unix time of the last round without an error."""

    @property
    def leases_expired(self) -> int:
        """Attempts that this server ended because the worker's lease had expired."""


class Metrics:
    """The Prometheus registry of one application."""

    def __init__(self, database: Database, reconciler: ReconcilerStatus) -> None:
        self._registry = CollectorRegistry()
        self.request_times = histogram(self._registry)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(ServerCollector(reconciler))
        self._registry.register(DatabaseCollector(database))
        self.rendered = SharedResult(self._render)
        """All metrics in Prometheus's text format."""

    def _render(self) -> bytes:
        return generate_latest(self._registry)


class ServerCollector(Collector):
    """Metrics of this server process."""

    def __init__(self, reconciler: ReconcilerStatus) -> None:
        self._reconciler = reconciler

    def collect(self) -> Iterator[Metric]:
        """The version, and the status of the reconciler."""
        build = GaugeMetricFamily(
            "ampcore_build_info",
            "Version of the server and of the database schema.",
            labels=["version", "schema"],
        )
        build.add_metric([ampspec.__version__, schema.HEAD], 1)
        yield build
        yield GaugeMetricFamily(
            "ampcore_reconciler_last_success_timestamp_seconds",
            "Time of the last successful round of the reconciler; 0 before the first.",
            value=self._reconciler.last_success_at or 0,
        )
        yield CounterMetricFamily(
            "ampcore_leases_lost",
            "Attempts that this server ended because the worker's lease expired.",
            value=self._reconciler.leases_expired,
        )


class DatabaseCollector(Collector):
    """Metrics of the whole service from the database; every server returns the same."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._parts = (JobMetrics(), WorkerMetrics())

    def collect(self) -> Iterator[Metric]:
        """All metrics; while the database is unavailable, only `ampcore_database_up`."""
        metrics: list[Metric] = []
        try:
            with self._database.read() as session:
                for part in self._parts:
                    metrics += part.collect(session)
        except SQLAlchemyError as error:
            log.warning("cannot read metrics from the database: %s", error)
            metrics = []
        yield GaugeMetricFamily(
            "ampcore_database_up", "1 if the database is available, else 0.", value=bool(metrics)
        )
        yield from metrics

"""What Prometheus is told: of this process, and of the service as the database knows it."""

import logging
from collections.abc import Iterator
from threading import Lock
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

import ampcore
from server import schema
from server.metrics.fleet import Fleet
from server.metrics.request_times import histogram
from server.metrics.workload import Workload
from server.reconcile import Reconciler
from store.database import Database

log = logging.getLogger(__name__)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The registry of one application; nothing is kept beside it."""

    def __init__(self, database: Database, reconciler: Reconciler) -> None:
        self._registry = CollectorRegistry()
        self.request_times = histogram(self._registry)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(Process(reconciler))
        self._registry.register(Service(database))
        self._turn = Lock()

    def render(self) -> bytes:
        """Everything, in Prometheus's text format; asks the database, for one scrape at a time."""
        with self._turn:
            return generate_latest(self._registry)


class Process(Collector):
    """What this server knows of itself."""

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler

    def collect(self) -> Iterator[Metric]:
        """Which version runs, and how its reconciler is doing."""
        build = GaugeMetricFamily(
            "ampcore_build_info", "Which version runs here.", labels=["version", "schema"]
        )
        build.add_metric([ampcore.__version__, schema.HEAD], 1)
        yield build
        yield GaugeMetricFamily(
            "ampcore_reconciler_last_success_timestamp_seconds",
            "When this server last compared the database, the queue and the clock; 0: not yet.",
            value=self._reconciler.rounds_at or 0,
        )
        yield CounterMetricFamily(
            "ampcore_leases_lost",
            "Attempts that this server took from workers that were not heard of.",
            value=self._reconciler.leases_lost,
        )


class Service(Collector):
    """What the database knows of all servers and workers; every server tells the same."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._parts = (Workload(), Fleet())

    def collect(self) -> Iterator[Metric]:
        """Everything or, while the database is away, only that."""
        found: list[Metric] = []
        try:
            with self._database.read() as session:
                for part in self._parts:
                    found += part.look(session)
        except SQLAlchemyError as error:
            log.warning("the database was not there to be measured: %s", error)
            found = []
        yield GaugeMetricFamily(
            "ampcore_database_up", "1 when the database answered.", value=bool(found)
        )
        yield from found

"""Prometheus metrics of workers and GPUs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from sqlalchemy import Row
from sqlalchemy.orm import Session

from server.metrics.monotonic_counter import MonotonicCounter
from store import workers
from store.gangs import gangs

STATES: Final = ("online", "lost", "stopped")
GPU_METRICS: Final = {
    "utilization": ("ampcore_gpu_utilization_ratio", "Utilization of a GPU, from 0 to 1."),
    "memory_used_bytes": ("ampcore_gpu_memory_used_bytes", "Used memory of a GPU."),
    "memory_total_bytes": ("ampcore_gpu_memory_bytes", "Total memory of a GPU."),
}


class WorkerMetrics:
    """Workers by state, their slots, and their own measurements."""

    def __init__(self) -> None:
        self._steps = MonotonicCounter()

    def collect(self, session: Session) -> Iterator[Metric]:
        """Read the metrics from the database."""
        measured = workers.measurements(session)
        online = [worker for worker in measured if worker.state == workers.ONLINE]
        # Those that run one job alone come and go with it: they are no capacity, and their batch
        # system says whether one is lost. Their steps and GPUs count.
        for_any_job = [worker for worker in measured if worker.job_id is None]
        yield _by_state(Counter(worker.state for worker in for_any_job))
        with_slots = [worker for worker in online if worker.job_id is None]
        ids = [worker.id for worker in with_slots]
        connection = session.connection()
        reserved = gangs.reserved_slots(connection)
        yield from _slots(with_slots, workers.busy_slots(connection, ids), reserved)
        for worker in measured:
            self._steps.total(worker.id, _measured(worker, "steps_total"))
        yield CounterMetricFamily(
            "ampcore_steps_ingested", "Training steps stored.", value=self._steps.sum()
        )
        yield GaugeMetricFamily(
            "ampcore_ingest_lag_seconds",
            "Seconds from a step's arrival at its worker until it is stored; maximum over workers.",
            value=max((_measured(worker, "lag_s") for worker in online), default=0.0),
        )
        yield from _gpus(online)


def _by_state(counts: Counter[str]) -> Metric:
    family = GaugeMetricFamily("ampcore_workers", "Workers by state.", labels=["state"])
    for state in STATES:
        family.add_metric([state], counts[state])
    return family


def _slots(
    online: Sequence[Row[Any]], busy: Mapping[str, int], reserved: Mapping[str, int]
) -> Iterator[Metric]:
    slots = GaugeMetricFamily(
        "ampcore_worker_slots", "Slots of an online worker.", labels=["worker"]
    )
    taken = GaugeMetricFamily(
        "ampcore_worker_slots_busy",
        "Slots of an online worker that run a job or a rank.",
        labels=["worker"],
    )
    kept = GaugeMetricFamily(
        "ampcore_worker_slots_reserved",
        "Slots of an online worker that are reserved for jobs with several ranks.",
        labels=["worker"],
    )
    for worker in online:
        slots.add_metric([worker.id], worker.slots)
        taken.add_metric([worker.id], busy.get(worker.id, 0))
        kept.add_metric([worker.id], reserved.get(worker.id, 0))
    yield slots
    yield taken
    yield kept


def _gpus(online: Sequence[Row[Any]]) -> Iterator[Metric]:
    for field, (name, text) in GPU_METRICS.items():
        family = GaugeMetricFamily(name, text, labels=["worker", "gpu"])
        for worker in online:
            for gpu in _usage(worker).get("gpus") or ():
                with suppress(KeyError, TypeError, ValueError):  # written by another version
                    family.add_metric([worker.id, str(gpu["index"])], float(gpu[field]))
        yield family


def _measured(worker: Row[Any], field: str) -> float:
    """A measurement of a worker, which may be `"Infinity"` in JSON; 0 if there is none yet."""
    with suppress(TypeError, ValueError):
        return float(_usage(worker).get(field, 0.0))
    return 0.0


def _usage(worker: Row[Any]) -> dict[str, Any]:
    """The measurements of a worker; empty if they cannot be read."""
    return worker.usage if isinstance(worker.usage, dict) else {}

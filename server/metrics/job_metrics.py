"""Prometheus metrics of jobs, allocations, attempts and artifacts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from sqlalchemy.orm import Session

from ampspec.jobs import TERMINAL, State
from server.metrics.monotonic_counter import MonotonicCounter
from store import metrics_queries
from store.jobs.lease_expiry import LOST
from store.listing import service_counts
from store.tables.jobs import REQUEUED, current_outcome

OUTCOMES: Final = (*sorted(TERMINAL), State.PAUSED, REQUEUED, LOST)


class JobMetrics:
    """Jobs and allocations by state, queue waits, attempts by outcome, sizes of artifacts."""

    def __init__(self) -> None:
        self._waits = MonotonicCounter()
        self._ends = MonotonicCounter()

    def collect(self, session: Session) -> Iterator[Metric]:
        """Read the metrics from the database."""
        counted = service_counts.read(session)
        jobs_by_state = GaugeMetricFamily(
            "ampcore_jobs", "Jobs by state.", labels=["state", "queue"]
        )
        for state, queue, count in counted["jobs"]:
            jobs_by_state.add_metric([state, queue], count)
        yield jobs_by_state
        oldest = GaugeMetricFamily(
            "ampcore_queue_oldest_seconds",
            "Waiting time of the oldest due job of the queue.",
            labels=["queue"],
        )
        for queue, wait_s in metrics_queries.oldest_wait_s_by_queue(session).items():
            oldest.add_metric([queue], wait_s)
        yield oldest
        yield GaugeMetricFamily(
            "ampcore_gangs_waiting",
            "Due jobs with several ranks that wait for slots.",
            value=metrics_queries.waiting_gangs(session),
        )
        allocations = GaugeMetricFamily(
            "ampcore_allocations",
            "Allocations of batch systems that have not ended.",
            labels=["engine", "state"],
        )
        for engine, state, count in metrics_queries.unfinished_allocations(session):
            allocations.add_metric([engine, state], count)
        yield allocations
        yield self._histogram_of_waits(counted["waits"][0])
        attempts_by_outcome = CounterMetricFamily(
            "ampcore_attempts", "Attempts that have ended, by outcome.", labels=["outcome"]
        )
        ends = Counter[str | None]()  # a server of 0.5 may have stored the counts
        for outcome, count in counted["attempts"]:
            ends[current_outcome(outcome)] += count
        for outcome in OUTCOMES:
            attempts_by_outcome.add_metric([outcome], self._ends.total(outcome, ends[outcome]))
        yield attempts_by_outcome
        files = GaugeMetricFamily(
            "ampcore_artifacts_bytes", "Size of the files that jobs have written.", labels=["kind"]
        )
        for kind, size_bytes in counted["artifacts"]:
            files.add_metric([kind], size_bytes)
        yield files
        yield GaugeMetricFamily(
            "ampcore_running_job_silence_seconds",
            "Longest time since a running job last wrote steps or a heartbeat.",
            value=metrics_queries.longest_silence_s(session),
        )
        yield GaugeMetricFamily(
            "ampcore_counts_age_seconds",
            "Age of the counts of jobs, attempts and files, which one server counts for all.",
            value=service_counts.age_s(session),
        )

    def _histogram_of_waits(self, waits: Sequence[float]) -> Metric:
        *counts, sum_s = waits
        bounds = [str(bound) for bound in metrics_queries.WAIT_BOUNDS_S] + ["+Inf"]
        # Per bucket, so that the cumulative counts stay monotonic.
        between = [count - less for less, count in pairwise([0, *counts])]
        grown = accumulate(map(self._waits.total, bounds, between))
        wait_histogram = HistogramMetricFamily(
            "ampcore_queue_wait_seconds", "Time that jobs waited before a worker claimed them."
        )
        buckets = list(zip(bounds, grown, strict=True))
        wait_histogram.add_metric([], buckets, self._waits.total("sum", sum_s))
        return wait_histogram

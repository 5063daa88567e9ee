"""The jobs, in numbers, for Prometheus."""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Final

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from sqlalchemy.orm import Session

from ampcore.spec import TERMINAL, State
from server.metrics.growth import Growth
from store import census
from store.attempts import HANDED_BACK
from store.lost import LOST

OUTCOMES: Final = (*sorted(TERMINAL), State.PAUSED, HANDED_BACK, LOST)


class Workload:
    """Jobs by state, how long they wait, how their attempts ended, and what they left."""

    def __init__(self) -> None:
        self._waits = Growth()
        self._ends = Growth()

    def look(self, session: Session) -> Iterator[Metric]:
        """Ask the database."""
        jobs = GaugeMetricFamily("ampcore_jobs", "Jobs by state.", labels=["state", "queue"])
        for (state, queue), count in census.jobs(session).items():
            jobs.add_metric([state, queue], count)
        yield jobs
        oldest = GaugeMetricFamily(
            "ampcore_queue_oldest_seconds",
            "How long the job that has waited longest has been due.",
            labels=["queue"],
        )
        for queue, wait_s in census.oldest_wait_s(session).items():
            oldest.add_metric([queue], wait_s)
        yield oldest
        yield self._histogram_of_waits(session)
        ends = CounterMetricFamily(
            "ampcore_attempts", "Attempts that have ended, by outcome.", labels=["outcome"]
        )
        found = census.ends(session)
        for outcome in OUTCOMES:
            ends.add_metric([outcome], self._ends.total(outcome, found.get(outcome, 0)))
        yield ends
        files = GaugeMetricFamily(
            "ampcore_artifacts_bytes", "Size of the files that jobs have left.", labels=["kind"]
        )
        for kind, size_bytes in census.artifact_bytes(session).items():
            files.add_metric([kind], size_bytes)
        yield files
        yield GaugeMetricFamily(
            "ampcore_running_job_silence_seconds",
            "How long ago the running job that is silent longest wrote steps or a heartbeat.",
            value=census.longest_silence_s(session),
        )

    def _histogram_of_waits(self, session: Session) -> Metric:
        counts, sum_s = census.waits(session)
        bounds = [str(bound) for bound in census.WAITS_S] + ["+Inf"]
        # Bucket by bucket, so that none ever holds less than the one before it.
        between = [count - less for less, count in pairwise([0, *counts])]
        grown = accumulate(map(self._waits.total, bounds, between))
        waits = HistogramMetricFamily(
            "ampcore_queue_wait_seconds", "How long jobs waited before a worker took them."
        )
        buckets = list(zip(bounds, grown, strict=True))
        waits.add_metric([], buckets, self._waits.total("sum", sum_s))
        return waits

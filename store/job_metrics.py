"""The metrics of jobs, as rows that lists are sorted and filtered by.

They are those of a job's last evaluation. `jobs.metrics` has the same values for display, also the
non-finite ones, which have no place in an order and so no row here.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, exists, select
from sqlalchemy.orm import Session, aliased

from ampspec.telemetry.metrics import finite_metrics
from store.rows import insert_rows
from store.tables import Job, JobMetric

COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}


@dataclass(frozen=True)
class MetricFilter:
    """A condition on a metric, as in `val_accuracy >= 0.9`; `comparison` is of COMPARISONS."""

    name: str
    comparison: str
    value: float

    def condition(self, job: type[Job] = Job) -> ColumnElement[bool]:
        """The condition in SQL on a job; false for one without the metric."""
        compare = COMPARISONS[self.comparison]
        metric = aliased(JobMetric)  # the list may be sorted by a metric, too
        # IN reads an index of the metric. EXISTS would let SQLite probe every job of a long list.
        return job.id.in_(
            select(metric.job_id).where(metric.name == self.name, compare(metric.value, self.value))
        )


def replace(session: Session, job_id: str, metrics: Mapping[str, float]) -> None:
    """Replace the metrics of a job; those that are not finite have no row.

    Only the owner of the job's lease may call it, in the transaction that renewed the lease.
    """
    session.connection().execute(delete(JobMetric).where(JobMetric.job_id == job_id))
    rows = [{"job_id": job_id, "name": n, "value": v} for n, v in finite_metrics(metrics).items()]
    if rows:
        insert_rows(session, JobMetric, *rows)


def has_metric(name: str) -> ColumnElement[bool]:
    """Whether a job has a value of this metric."""
    row = select(1).where(JobMetric.job_id == Job.id, JobMetric.name == name)
    return exists(row.correlate(Job))

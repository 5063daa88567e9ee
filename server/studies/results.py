"""The results of a study's jobs, read from the rows of jobs that have ended."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Row
from sqlalchemy.orm import Session

from ampspec.jobs import TERMINAL, State
from ampspec.precision.precision import COMPUTE_DTYPE
from ampspec.studies.bisect.layer_losses import LayerLoss, layer_losses
from ampspec.studies.plan import JobResult
from ampspec.telemetry.metrics import finite_metrics, metrics_of, metrics_of_result
from infra.storage import Storage
from server.studies.job_observations import job_observations
from server.telemetry.range_reader import evenly_spaced, read_samples
from server.telemetry.validation_examples import read_example_results
from store.telemetry import ranges

log = logging.getLogger(__name__)

RANGES: Final = "telemetry.ranges"
"""A job that a study plans with this change is asked for range samples."""
MAX_SAMPLES: Final = 50


def new_results(
    session: Session, rows: Sequence[Row[Any]], storage: Storage, *, with_examples: bool
) -> dict[str, JobResult]:
    """The results of the jobs that have ended, or were deleted, and are not recorded yet.

    Args:
        session: For reading.
        rows: Those of `store.studies.jobs_of`.
        storage: Where jobs have stored their files.
        with_examples: Whether the study compares validation examples.
    """
    return {
        row.key: _new_result(session, row, storage if with_examples else None)
        for row in rows
        if row.job_id is not None
        and row.result is None
        and (row.state is None or row.state in TERMINAL)
    }


def _new_result(session: Session, row: Row[Any], storage: Storage | None) -> JobResult:
    if row.state is None:
        return JobResult(row.job_id, State.CANCELLED, message="The job was deleted.")
    latest = row.latest if isinstance(row.latest, dict) else {}
    summary = {**latest, **(row.totals or {}), **(row.summary or {})}
    metrics = metrics_of(row.metrics) or metrics_of_result(row.summary)
    result = JobResult(
        row.job_id,
        State(row.state),
        row.reason,
        row.message,
        finite_metrics(metrics),
        summary,
        row.ran_s,
        **job_observations(session, row.job_id),
    )
    if storage is not None and result.succeeded:
        result = replace(result, examples=read_example_results(session, row.job_id, storage))
    if RANGES not in row.changes:
        return result
    return replace(result, losses=_losses(session, row.job_id, row.changes["precision"]["policy"]))


def _losses(session: Session, job_id: str, policy: str) -> list[LayerLoss]:
    """What the layers lose in the policy's number format; empty without samples."""
    # They load NumPy, which a server needs only for ranges.
    from ampspec.telemetry.ranges.number_formats import NUMBER_FORMATS
    from ampspec.telemetry.ranges.range_report import range_report

    number_format = NUMBER_FORMATS.get(COMPUTE_DTYPE[policy])
    if number_format is None:
        return []
    steps = evenly_spaced(ranges.steps(session, job_id), MAX_SAMPLES)
    samples = read_samples(session, job_id, steps)
    report = range_report(samples, number_format)
    return [] if report is None else layer_losses(report)

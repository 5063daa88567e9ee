"""Downsample the steps of several jobs on one grid, so that their points can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from ampspec.telemetry.steps.buckets import SKIPPED, Buckets
from ampspec.telemetry.steps.downsampling import bucket_size_for, to_buckets
from server.telemetry import step_table
from server.telemetry.evaluation_table import evaluation_table
from server.telemetry.step_table import StepTable
from store.telemetry import downsampling, key_steps, steps
from store.telemetry.evaluations import StoredEvaluation
from store.telemetry.key_steps import KeyStepsInRange
from store.telemetry.steps import AttemptSteps

STEP_TIME: Final = "step_time_s"
ELAPSED: Final = "elapsed_s"
DRIFT_WINDOW_SHARE: Final = 10
"""Losses are compared over the last tenth of the steps that two jobs have."""


@dataclass(frozen=True)
class JobCurve:
    """The downsampled steps of one job; `table` also has the column `elapsed_s`."""

    table: StepTable
    key_steps: KeyStepsInRange


@dataclass(frozen=True)
class JobRanges:
    """A job and the attempt ranges that readers see."""

    job_id: str
    ranges: Sequence[AttemptSteps]

    @property
    def end(self) -> int:
        """The step after its last one; 0 if it has none."""
        return self.ranges[-1].end if self.ranges else 0


def steps_of_job(session: Session, job_id: str) -> JobRanges:
    """Read the ranges of a job."""
    return JobRanges(job_id, steps.visible_ranges(session, job_id))


def steps_per_point(tracks: Sequence[JobRanges], max_buckets: int) -> int:
    """The number of steps per bucket, so that no job has more than `max_buckets` buckets."""
    starts = [track.ranges[0].start for track in tracks if track.ranges]
    if not starts:
        return 1
    return bucket_size_for(min(starts), max(track.end for track in tracks), max_buckets)


def curve(session: Session, track: JobRanges, size: int, columns: Sequence[str] | None) -> JobCurve:
    """A job's steps in buckets of that size; unknown `columns` are left out."""
    read = None if columns is None else [*columns, SKIPPED, STEP_TIME]
    buckets = to_buckets(downsampling.stored_parts(session, track.job_id, track.ranges, read), size)
    names = [name for name in buckets.names if columns is None or name in columns]
    table = {**step_table.table_of_buckets(buckets, names), ELAPSED: _elapsed_s(buckets)}
    return JobCurve(table, key_steps.find(session, track.job_id, track.ranges, 0, None))


def evaluation_curve(evaluations: Sequence[StoredEvaluation], of_steps: JobCurve) -> StepTable:
    """The evaluations of a job as columns; `elapsed_s` is interpolated between points of steps."""
    table = evaluation_table(evaluations)
    steps_at_ends = of_steps.table["step"] + of_steps.table["count"]
    elapsed = of_steps.table[ELAPSED]
    times = np.interp(table["step"] + 1, steps_at_ends, elapsed) if len(elapsed) else None
    return {**table, ELAPSED: np.zeros(len(evaluations)) if times is None else times}


def loss_drift(session: Session, track: JobRanges, baseline: JobRanges) -> float | None:
    """The relative difference of the mean loss to the baseline's.

    Over the last tenth of the steps that both have. None if there are no such steps, or if they
    have no finite losses.
    """
    end = min(track.end, baseline.end)
    start = end - max(end // DRIFT_WINDOW_SHARE, 1)
    mine, theirs = (_mean_loss(session, job_steps, start, end) for job_steps in (track, baseline))
    return None if mine is None or not theirs else mine / theirs - 1


def _mean_loss(session: Session, track: JobRanges, start: int, end: int) -> float | None:
    ranges = steps.clip(track.ranges, start, end)
    buckets = downsampling.downsample(session, track.job_id, ranges, 2, ["loss"])
    if "loss" not in buckets:
        return None
    loss = buckets["loss"]
    finite = loss.finite > 0
    if not finite.any():
        return None
    return float(np.average(loss.mean[finite], weights=loss.finite[finite]))


def _elapsed_s(buckets: Buckets) -> NDArray[np.float64]:
    """The total duration of the steps up to the end of each bucket, in seconds."""
    if STEP_TIME not in buckets:
        return np.zeros(len(buckets))
    taken = buckets[STEP_TIME]
    return np.cumsum(np.where(taken.finite > 0, taken.mean, 0.0) * taken.finite)

"""The steps of several jobs in few points on one grid, so that each point has its counterparts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from ampcore.series.buckets import SKIPPED, Buckets
from ampcore.series.pyramid import in_buckets, size_for
from server.telemetry import tables
from server.telemetry.tables import Table
from store import points, samples, steps
from store.points import Found
from store.steps import Stretch

TIME: Final = "step_time_s"
ELAPSED: Final = "elapsed_s"
LAST_SHARE: Final = 10
"""Losses are compared over the last tenth of the steps that two jobs have."""


@dataclass(frozen=True)
class Curve:
    """One job's steps in points; `table` has `elapsed_s` beside the columns of any sample."""

    table: Table
    found: Found


@dataclass(frozen=True)
class Track:
    """Where a job's steps are to be read."""

    job_id: str
    seen: Sequence[Stretch]

    @property
    def end(self) -> int:
        """The step behind its last one; 0: it has none."""
        return self.seen[-1].end if self.seen else 0


def track(session: Session, job_id: str) -> Track:
    """That of a job, as readers see it."""
    return Track(job_id, steps.stretches(session, job_id))


def grid(tracks: Sequence[Track], most: int) -> int:
    """How many steps a point holds, so that no job has more than `most` points."""
    starts = [each.seen[0].start for each in tracks if each.seen]
    if not starts:
        return 1
    return size_for(min(starts), max(each.end for each in tracks), most)


def curve(session: Session, each: Track, size: int, columns: Sequence[str] | None) -> Curve:
    """A job's steps in points of so many; of `columns`, those that there are."""
    read = None if columns is None else [*columns, SKIPPED, TIME]
    buckets = in_buckets(samples.parts(session, each.job_id, each.seen, read), size)
    names = [name for name in buckets.names if columns is None or name in columns]
    table = {**tables.of_buckets(buckets, names), ELAPSED: _elapsed_s(buckets)}
    return Curve(table, points.find(session, each.job_id, each.seen, 0, None))


def loss_drift(session: Session, each: Track, baseline: Track) -> float | None:
    """The mean loss of the last tenth of the steps that both have, over the baseline's, less 1.

    None where there are no such steps, or no finite losses in them.
    """
    end = min(each.end, baseline.end)
    start = end - max(end // LAST_SHARE, 1)
    mine, theirs = (_mean_loss(session, one, start, end) for one in (each, baseline))
    return None if mine is None or not theirs else mine / theirs - 1


def _mean_loss(session: Session, each: Track, start: int, end: int) -> float | None:
    seen = steps.clipped(each.seen, start, end)
    buckets = samples.sample(session, each.job_id, seen, 2, ["loss"])
    if "loss" not in buckets:
        return None
    loss = buckets["loss"]
    finite = loss.finite > 0
    if not finite.any():
        return None
    return float(np.average(loss.mean[finite], weights=loss.finite[finite]))


def _elapsed_s(buckets: Buckets) -> NDArray[np.float64]:
    """The seconds that the steps up to the end of each bucket took."""
    if TIME not in buckets:
        return np.zeros(len(buckets))
    taken = buckets[TIME]
    return np.cumsum(np.where(taken.finite > 0, taken.mean, 0.0) * taken.finite)

"""What happened in a job at single steps: skips and changes of the loss scale, none left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from ampcore.series.buckets import SKIPPED
from ampcore.series.points import Points, Scales, is_loss_scale, unpack_points
from store.database import BINARY
from store.steps import Stretch, blocks_of, clipped
from store.tables import StepPoints

MOST: Final = 1000
"""So many skipped steps, and so many changes, are told of one by one."""

_STORED: Final = (
    select(StepPoints.__table__)
    .where(
        StepPoints.job_id == bindparam("job_id"),
        StepPoints.attempt == bindparam("attempt"),
        StepPoints.end_step > bindparam("start"),
        StepPoints.first_step < bindparam("end"),
    )
    .order_by(StepPoints.first_step)
    .execution_options(**{BINARY: True})
)


@dataclass
class Found:
    """The first skipped steps and scale changes of a range, and how many of each there are."""

    points: Points
    skipped: int = 0
    changes: int = 0

    @property
    def is_full(self) -> bool:
        """That no more of them will be told of one by one."""
        return len(self.points.skipped) >= MOST and len(self.points.changes) >= MOST

    def add(self, points: Points) -> None:
        """Take further ones, behind those there are."""
        self.skipped += len(points.skipped)
        self.changes += len(points.changes)
        if not self.is_full:
            both = Points.concat([self.points, points])
            self.points = Points(both.skipped[:MOST], both.changes[:MOST])


def find(
    session: Session, job_id: str, seen: Sequence[Stretch], start: int, end: int | None
) -> Found:
    """What happened at the steps s with `start` ≤ s < `end` of all the stretches of a job."""
    found = Found(Points.concat([]))
    for before, whole in pairwise((None, *seen)):
        for stretch in clipped([whole] if whole else [], start, end):
            first = stretch.start
            if before is not None and whole is not None and first == whole.start:
                found.add(_joint(session, job_id, before, stretch))
                first += 1
            until = _stored(session, job_id, Stretch(stretch.attempt, first, stretch.end), found)
            for points in _fresh(session, job_id, Stretch(stretch.attempt, until, stretch.end)):
                found.add(points)
    return found


def _stored(session: Session, job_id: str, stretch: Stretch, found: Found) -> int:
    """Add those that are stored by themselves; answers until where they are."""
    until = stretch.start
    asked = {"job_id": job_id, **vars(stretch)}
    for row in session.connection().execute(_STORED, asked):
        until = min(row.end_step, stretch.end)
        whole = stretch.start <= row.first_step and row.end_step <= stretch.end
        if whole and (found.is_full or not row.skipped + row.changes):
            found.skipped += row.skipped
            found.changes += row.changes
        else:
            found.add(unpack_points(row.payload).between(stretch.start, stretch.end))
    return until


def _fresh(session: Session, job_id: str, stretch: Stretch) -> Iterator[Points]:
    """Those of steps that are not stored by themselves yet."""
    if stretch.start >= stretch.end:
        return
    # From the step before on, whose scale the first one may have changed.
    wider = Stretch(stretch.attempt, max(stretch.start - 1, 0), stretch.end)
    before = Scales.unknown()
    for block in blocks_of(session, job_id, wider, _tells):
        yield Points.of(block, before).between(stretch.start, stretch.end)
        before = Scales.of(block)


def _joint(session: Session, job_id: str, before: Stretch, stretch: Stretch) -> Points:
    """Those of the first step of a stretch, which readers see behind that of another attempt."""
    last = Stretch(before.attempt, before.end - 1, before.end)
    first = Stretch(stretch.attempt, stretch.start, stretch.start + 1)
    scales = [Scales.of(block) for block in blocks_of(session, job_id, last, _tells)]
    blocks = blocks_of(session, job_id, first, _tells)
    return Points.concat([Points.of(each, (scales or [Scales.unknown()])[0]) for each in blocks])


def _tells(name: str) -> bool:
    return name == SKIPPED or is_loss_scale(name)

"""Key steps of a job: skipped steps and loss scale changes, which downsampling never hides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from ampspec.telemetry.steps.buckets import SKIPPED
from ampspec.telemetry.steps.key_steps import (
    KeySteps,
    LastLossScales,
    decode_key_steps,
    is_loss_scale,
)
from store.database import BINARY_RESULTS
from store.tables import StepPoints
from store.telemetry.payloads import decoded
from store.telemetry.steps import AttemptSteps, clip, read_blocks, step_before

MAX_LISTED: Final = 1000
"""The maximum number of skipped steps, and of loss-scale changes, that are listed individually."""

_STORED: Final = (
    select(StepPoints.__table__)
    .where(
        StepPoints.job_id == bindparam("job_id"),
        StepPoints.attempt == bindparam("attempt"),
        StepPoints.end_step > bindparam("start"),
        StepPoints.first_step < bindparam("end"),
    )
    .order_by(StepPoints.first_step)
    .execution_options(**{BINARY_RESULTS: True})
)


@dataclass
class KeyStepsInRange:
    """The first skipped steps and loss scale changes in a range, and the total number of each."""

    points: KeySteps
    skipped: int = 0
    changes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the maximum number of each is listed."""
        return len(self.points.skipped) >= MAX_LISTED and len(self.points.changes) >= MAX_LISTED

    def add(self, points: KeySteps) -> None:
        """Append further key steps."""
        self.skipped += len(points.skipped)
        self.changes += len(points.changes)
        if not self.is_full:
            all_points = KeySteps.concat([self.points, points])
            self.points = KeySteps(all_points.skipped[:MAX_LISTED], all_points.changes[:MAX_LISTED])


def find(
    session: Session, job_id: str, ranges: Sequence[AttemptSteps], start: int, end: int | None
) -> KeyStepsInRange:
    """The key steps s with `start` ≤ s < `end` in the given attempt ranges of a job."""
    in_range = KeyStepsInRange(KeySteps.concat([]))
    for previous_range, whole in pairwise((None, *ranges)):
        for attempt_range in clip([whole] if whole else [], start, end):
            first = attempt_range.start
            if previous_range is not None and whole is not None and first == whole.start:
                in_range.add(_at_attempt_boundary(session, job_id, previous_range, attempt_range))
                first += 1
            until = _add_stored(
                session,
                job_id,
                AttemptSteps(attempt_range.attempt, first, attempt_range.end),
                in_range,
            )
            for points in _not_stored_yet(
                session, job_id, AttemptSteps(attempt_range.attempt, until, attempt_range.end)
            ):
                in_range.add(points)
    return in_range


def _add_stored(
    session: Session, job_id: str, attempt_range: AttemptSteps, in_range: KeyStepsInRange
) -> int:
    """Add the stored key steps; returns the step up to which they are stored."""
    until = attempt_range.start
    parameters = {"job_id": job_id, **vars(attempt_range)}
    for row in session.connection().execute(_STORED, parameters):
        until = min(row.end_step, attempt_range.end)
        whole = attempt_range.start <= row.first_step and row.end_step <= attempt_range.end
        if whole and (in_range.is_full or not row.skipped + row.changes):
            in_range.skipped += row.skipped
            in_range.changes += row.changes
        else:
            for points in decoded([row.payload], decode_key_steps, job_id, row.attempt):
                in_range.add(points.between(attempt_range.start, attempt_range.end))
    return until


def _not_stored_yet(
    session: Session, job_id: str, attempt_range: AttemptSteps
) -> Iterator[KeySteps]:
    """The key steps of blocks that are not merged yet."""
    if attempt_range.start >= attempt_range.end:
        return
    # From the step before on: the first step may have changed its scale.
    before_start = step_before(session, job_id, attempt_range.attempt, attempt_range.start)
    first = attempt_range.start if before_start is None else before_start
    wider = AttemptSteps(attempt_range.attempt, first, attempt_range.end)
    scales = LastLossScales.unknown()
    for block in read_blocks(session, job_id, wider, _is_needed):
        yield KeySteps.of(block, scales).between(attempt_range.start, attempt_range.end)
        scales = LastLossScales.of(block)


def _at_attempt_boundary(
    session: Session, job_id: str, previous_range: AttemptSteps, attempt_range: AttemptSteps
) -> KeySteps:
    """The changes at the first step of a range, compared with the attempt before it."""
    # Steps of a tracked run have gaps, also before the step from which its program went on.
    end = step_before(session, job_id, previous_range.attempt, previous_range.end)
    last_step = previous_range.end - 1 if end is None else end
    last = AttemptSteps(previous_range.attempt, last_step, last_step + 1)
    first = AttemptSteps(attempt_range.attempt, attempt_range.start, attempt_range.start + 1)
    scales = [LastLossScales.of(block) for block in read_blocks(session, job_id, last, _is_needed)]
    blocks = read_blocks(session, job_id, first, _is_needed)
    return KeySteps.concat(
        [KeySteps.of(block, (scales or [LastLossScales.unknown()])[0]) for block in blocks]
    )


def _is_needed(name: str) -> bool:
    return name == SKIPPED or is_loss_scale(name)

"""Read the evaluations of a job: each evaluated step once, from the latest attempt."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session, aliased

from ampspec.jobs import Source
from ampspec.telemetry import EventType
from ampspec.telemetry.metrics import metrics_of
from store.tables import EVALUATION_TYPE, Attempt, EventRow, Job

MAX_EPOCH: Final = 2**53
"""A program may send any number; larger ones are no epochs."""


@dataclass(frozen=True)
class StoredEvaluation:
    """The metrics after a step, which is the last one of `epoch`; both count from 0.

    `epoch` is None if neither the evaluation nor the steps per epoch of the job tell it.
    `is_best`: the best one of the whole job so far, by the metric of its `train.best`.
    """

    epoch: int | None
    step: int
    metrics: dict[str, float]
    is_best: bool = False


EvaluationsIn = Callable[[int, int], Sequence[StoredEvaluation]]
"""Returns the evaluations after steps s with `start` ≤ s < `end`, in order."""


def no_evaluations(start: int, end: int) -> Sequence[StoredEvaluation]:
    """No evaluations, for any range of steps."""
    return ()


def read(
    session: Session,
    job_id: str,
    *,
    limit: int,
    after_step: int = -1,
    end: int | None = None,
    attempt: int | None = None,
) -> list[StoredEvaluation]:
    """At most `limit` evaluations after steps s with `after_step` < s < `end`, in order.

    A step that several attempts reached is listed once, with the metrics of the latest one; with
    `attempt`, all are of that one.
    """
    statement = _visible(job_id, after_step, end, attempt).order_by(EventRow.step).limit(limit)
    return _evaluations(session, job_id, session.execute(statement), attempt)


def sample(
    session: Session,
    job_id: str,
    limit: int,
    *,
    after_step: int = -1,
    end: int | None = None,
    attempt: int | None = None,
) -> list[StoredEvaluation]:
    """At most `limit` of these evaluations, evenly spaced, always with the last one."""
    total = func.count().over()
    rows_after = total - func.row_number().over(order_by=EventRow.step)
    stride = (total + (limit - 1)) // limit
    visible = _visible(job_id, after_step, end, attempt)
    numbered_rows = visible.add_columns((rows_after % stride).label("offset")).subquery()
    statement = select(numbered_rows.c.step, numbered_rows.c.data).where(
        numbered_rows.c.offset == 0
    )
    rows = session.execute(statement.order_by(numbered_rows.c.step))
    return _evaluations(session, job_id, rows, attempt)


def steps_per_epoch(session: Session, job_id: str) -> int | None:
    """The steps of an epoch, from the last `started` event; None before the first."""
    statement = (
        select(EventRow.data)
        .where(EventRow.job_id == job_id, EventRow.type == EventType.STARTED)
        .order_by(EventRow.seq.desc())
        .limit(1)
    )
    data = session.scalar(statement)
    steps = data.get("steps_per_epoch") if isinstance(data, dict) else None
    return steps if isinstance(steps, int) and not isinstance(steps, bool) and steps > 0 else None


def _visible(
    job_id: str, after_step: int, end: int | None, attempt: int | None = None
) -> Select[tuple[int | None, dict[str, Any]]]:
    """The step and the data of each evaluation that no later one replaces."""
    later = aliased(EventRow)
    replacing = select(1).where(
        later.job_id == EventRow.job_id,
        later.type == EVALUATION_TYPE,
        later.step == EventRow.step,
        later.seq > EventRow.seq,
    )
    statement = select(EventRow.step, EventRow.data).where(
        EventRow.job_id == job_id, EventRow.type == EVALUATION_TYPE, EventRow.step > after_step
    )
    if end is not None:
        statement = statement.where(EventRow.step < end)
    if attempt is not None:
        statement = statement.where(EventRow.attempt == attempt)
        replacing = replacing.where(later.attempt == attempt)
    else:
        statement = statement.where(~_is_replaced_in_tracked_run(job_id))
    return statement.where(~replacing.exists())


def _is_replaced_in_tracked_run(job_id: str) -> ColumnElement[bool]:
    """SQL condition: the program of a tracked run went on from an earlier step than this."""
    is_tracked = select(Job.source == Source.TRACKED).where(Job.id == job_id).scalar_subquery()
    later_attempt = select(1).where(
        is_tracked,
        Attempt.job_id == EventRow.job_id,
        Attempt.attempt > EventRow.attempt,
        Attempt.first_step <= EventRow.step,
    )
    return later_attempt.exists()


def _evaluations(
    session: Session, job_id: str, rows: Iterable[Any], attempt: int | None
) -> list[StoredEvaluation]:
    per_epoch = steps_per_epoch(session, job_id)
    best = _best_step(session, job_id, attempt)
    return [
        StoredEvaluation(
            _epoch(row.data, row.step, per_epoch),
            row.step,
            metrics_of(row.data),
            row.step == best,
        )
        for row in rows
    ]


def _epoch(data: Any, step: int, per_epoch: int | None) -> int | None:
    """The epoch that the evaluation of a tracked run names, else the one of its step."""
    epoch = data.get("epoch") if isinstance(data, dict) else None
    if isinstance(epoch, int) and not isinstance(epoch, bool) and 0 <= epoch <= MAX_EPOCH:
        return epoch
    return step // per_epoch if per_epoch else None


def _best_step(session: Session, job_id: str, attempt: int | None) -> int | None:
    """The step of the best evaluation: the last one that was better than all before it."""
    improved = _visible(job_id, -1, None, attempt).where(EventRow.data["best"].as_boolean())
    row = session.execute(improved.order_by(EventRow.step.desc()).limit(1)).first()
    return None if row is None else row.step

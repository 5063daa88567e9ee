"""Read the evaluations of a job: each evaluated step once, from the latest attempt."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from ampcore.telemetry import EventType
from ampcore.telemetry.metrics import metrics_of
from store.tables import EVALUATION_TYPE, EventRow


@dataclass(frozen=True)
class Evaluation:
    """The metrics after a step, which is the last one of `epoch`; both count from 0.

    `epoch` is None if the job's log does not tell the steps of an epoch.
    """

    epoch: int | None
    step: int
    metrics: dict[str, float]


def read(
    session: Session,
    job_id: str,
    *,
    limit: int,
    after: int = -1,
    end: int | None = None,
) -> list[Evaluation]:
    """At most `limit` evaluations after steps s with `after` < s < `end`, in order.

    A step that several attempts reached is listed once, with the metrics of the latest one.
    """
    later = aliased(EventRow)
    is_replaced = (
        select(1)
        .where(
            later.job_id == EventRow.job_id,
            later.type == EVALUATION_TYPE,
            later.step == EventRow.step,
            later.seq > EventRow.seq,
        )
        .exists()
    )
    statement = (
        select(EventRow.step, EventRow.data)
        .where(EventRow.job_id == job_id, EventRow.type == EVALUATION_TYPE)
        .where(EventRow.step > after, ~is_replaced)
        .order_by(EventRow.step)
        .limit(limit)
    )
    if end is not None:
        statement = statement.where(EventRow.step < end)
    per_epoch = steps_per_epoch(session, job_id)
    return [
        Evaluation(row.step // per_epoch if per_epoch else None, row.step, metrics_of(row.data))
        for row in session.execute(statement)
    ]


def steps_per_epoch(session: Session, job_id: str) -> int | None:
    """The steps of an epoch, from the last `started` event; None before the first."""
    statement = (
        select(EventRow.data)
        .where(EventRow.job_id == job_id, EventRow.type == EventType.STARTED)
        .order_by(EventRow.seq.desc())
        .limit(1)
    )
    data = session.scalar(statement)
    found = data.get("steps_per_epoch") if isinstance(data, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None

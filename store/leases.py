"""The fence and its time: who holds a job, and until when."""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, update
from sqlalchemy.orm import Session

from ampcore.spec import ACTIVE
from store.clock import after, now
from store.tables import Job

LEASE_S: Final = 30.0
"""How long a job belongs to a worker that says nothing."""
LONGEST_CALM_S: Final = 10.0
SELF_FENCE_S: Final = 300.0
"""A worker that cannot reach the database for so long ends its trainers by itself.

Until then they may still run, so a cancelled job of a lost worker is not said to be gone.
"""


def calm_s(lease_s: float) -> float:
    """How long the database must have answered before a silent worker counts as lost.

    After an outage the workers need a moment too; none of them is to blame.
    """
    return min(LONGEST_CALM_S, lease_s / 3)


def longest_wait_s(lease_s: float) -> float:
    """Between two tries of a worker to reach the database: it is back well within the calm."""
    return calm_s(lease_s) / 2


@dataclass(frozen=True)
class Standing:
    """What a worker learns when the job is still its own: the last seq, the action asked of it."""

    seq: int
    requested: str | None


def hold(
    session: Session, job_id: str, attempt: int, *, lease_s: float = LEASE_S
) -> Standing | None:
    """Extend the lease of `attempt` and learn what is asked.

    None means that another attempt owns the job or that it has ended: the caller must stop
    its process and write nothing.
    """
    return fence(session, job_id, attempt, lease_s=lease_s)


def fence(
    session: Session,
    job_id: str,
    attempt: int,
    *conditions: ColumnElement[bool],
    lease_s: float,
    **values: Any,
) -> Standing | None:
    """The one conditional UPDATE: lease, order, `values`; None when it matches no row."""
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.attempt == attempt, Job.state.in_(ACTIVE), *conditions)
        .values(lease_expires_at=after(lease_s), updated_at=now(), **values)
        .returning(Job.seq, Job.requested)
        .execution_options(synchronize_session=False)
    )
    row = session.execute(statement).one_or_none()
    return Standing(*row) if row is not None else None

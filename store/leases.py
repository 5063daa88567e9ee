"""The fence and its time: who holds a job, and until when."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Float, bindparam, update
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
    asked = {"id_": job_id, "attempt_": attempt, "lease_s": lease_s}
    return _standing(session, _HOLD, asked)


def take_seq(session: Session, job_id: str, attempt: int, *, lease_s: float) -> Standing | None:
    """As `hold`, and the job's `seq` goes on by one, for something that is to be told."""
    asked = {"id_": job_id, "attempt_": attempt, "lease_s": lease_s}
    return _standing(session, _TAKE_SEQ, asked)


def advance(
    session: Session,
    job_id: str,
    attempt: int,
    *,
    told: int,
    count: int,
    lease_s: float,
    progress: Mapping[str, Any],
) -> Standing | None:
    """As `hold`, for an attempt that has told so many entries and tells `count` more.

    Its job's `seq` goes on by as many, and `progress` says what else of it has changed: nothing, or
    its `step`, `latest` and `totals`. None also where it has not told so many.
    """
    asked = {"id_": job_id, "attempt_": attempt, "lease_s": lease_s, "told_": told, "count": count}
    statement = _PROGRESS if progress else _ADVANCE
    return _standing(session, statement, {**asked, **{f"{k}_": v for k, v in progress.items()}})


def _standing(session: Session, statement: Any, asked: Mapping[str, Any]) -> Standing | None:
    row = session.connection().execute(statement, asked).one_or_none()
    return Standing(*row) if row is not None else None


_JOBS: Final = Job.__table__.c
# Made once: to put a statement together takes longer than to carry it out.
_HOLD: Final = (
    update(Job)
    .where(
        _JOBS.id == bindparam("id_"),
        _JOBS.attempt == bindparam("attempt_"),
        _JOBS.state.in_(ACTIVE),
    )
    .values(lease_expires_at=after(bindparam("lease_s", type_=Float)), updated_at=now())
    .returning(_JOBS.seq, _JOBS.requested)
)
_TAKE_SEQ: Final = _HOLD.values(seq=_JOBS.seq + 1)
_ADVANCE: Final = _HOLD.where(_JOBS.told == bindparam("told_")).values(
    told=_JOBS.told + bindparam("count"), seq=_JOBS.seq + bindparam("count")
)
_PROGRESS: Final = _ADVANCE.values(
    {name: bindparam(f"{name}_") for name in ("step", "latest", "totals")}
)

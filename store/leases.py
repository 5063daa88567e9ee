"""Leases: the attempt that owns a job, and until when. Every write of its attempt renews it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import Float, Update, bindparam, update
from sqlalchemy.orm import Session

from ampspec.jobs import ACTIVE
from store.clock import from_now, now
from store.tables import Job

LEASE_S: Final = 30.0
"""A worker owns its job for this long after its last write or heartbeat."""
RUN_LEASE_S: Final = 300.0
"""The same for the program of a tracked run; longer, because a laptop may sleep."""
MAX_OUTAGE_GRACE_S: Final = 10.0
SELF_FENCE_S: Final = 300.0
"""A worker that cannot reach the database for this long ends its trainers itself.

Until then they may still run, so the cancelled job of a lost worker does not count as ended.
"""


def outage_grace_s(lease_s: float) -> float:
    """How long the database must have been reachable before leases are expired.

    After an outage the workers need time to reconnect.
    """
    return min(MAX_OUTAGE_GRACE_S, lease_s / 3)


def max_reconnect_wait_s(lease_s: float) -> float:
    """The longest wait of a worker between two attempts to reconnect: within the outage grace."""
    return outage_grace_s(lease_s) / 2


@dataclass(frozen=True)
class LeaseStatus:
    """The result of a renewed lease: the job's last seq, and the action requested of the worker."""

    seq: int
    requested: str | None


def renew_lease(
    session: Session, job_id: str, attempt: int, *, lease_s: float = LEASE_S
) -> LeaseStatus | None:
    """Renew the lease of `attempt`.

    None means that another attempt owns the job or that the job has ended: the caller must stop
    its process and write nothing.
    """
    parameters = {"id_": job_id, "attempt_": attempt, "lease_s": lease_s}
    return _execute(session, _RENEW, parameters)


def renew_lease_and_take_seq(
    session: Session, job_id: str, attempt: int, *, lease_s: float
) -> LeaseStatus | None:
    """Like `renew_lease`, and take the job's next `seq` for a row of the event stream."""
    parameters = {"id_": job_id, "attempt_": attempt, "lease_s": lease_s}
    return _execute(session, _RENEW_AND_TAKE_SEQ, parameters)


def renew_lease_and_advance(
    session: Session,
    job_id: str,
    attempt: int,
    *,
    entries_written: int,
    count: int,
    lease_s: float,
    progress: Mapping[str, Any],
) -> LeaseStatus | None:
    """Like `renew_lease`, for an attempt that writes `count` entries after `entries_written`.

    The job's `seq` advances by `count`. `progress` may set the job's `step`, `latest`, `totals`,
    `metrics` and `resolved_policy`. None also if the attempt has not written `entries_written`
    entries before.
    """
    parameters = {
        "id_": job_id,
        "attempt_": attempt,
        "lease_s": lease_s,
        "entries_written_": entries_written,
        "count": count,
    }
    statement = _renew_and_progress(frozenset(progress))
    return _execute(session, statement, {**parameters, **{f"{k}_": v for k, v in progress.items()}})


def _execute(session: Session, statement: Any, parameters: Mapping[str, Any]) -> LeaseStatus | None:
    row = session.connection().execute(statement, parameters).one_or_none()
    return LeaseStatus(*row) if row is not None else None


_JOBS: Final = Job.__table__.c
# Built once: building a statement takes longer than executing it.
_RENEW: Final = (
    update(Job)
    .where(
        _JOBS.id == bindparam("id_"),
        _JOBS.attempt == bindparam("attempt_"),
        _JOBS.state.in_(ACTIVE),
    )
    .values(lease_expires_at=from_now(bindparam("lease_s", type_=Float)), updated_at=now())
    .returning(_JOBS.seq, _JOBS.requested)
)
_RENEW_AND_TAKE_SEQ: Final = _RENEW.values(seq=_JOBS.seq + 1)
_RENEW_AND_ADVANCE: Final = _RENEW.where(
    _JOBS.entries_written == bindparam("entries_written_")
).values(
    entries_written=_JOBS.entries_written + bindparam("count"), seq=_JOBS.seq + bindparam("count")
)


@cache
def _renew_and_progress(columns: frozenset[str]) -> Update:
    """The statement that also sets these columns; there are few sets of them."""
    return _RENEW_AND_ADVANCE.values({name: bindparam(f"{name}_") for name in columns})

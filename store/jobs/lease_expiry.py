"""Lease expiry: end the attempts whose worker or program has stopped renewing its lease."""

from typing import Any, Final

from sqlalchemy import BindParameter, ColumnElement, Connection, and_, bindparam, func, or_, select
from sqlalchemy.orm import Session

from ampspec.jobs import ACTIVE, Reason, Source, State
from store.clock import from_now, now
from store.jobs.attempts import BUNDLE, fail
from store.jobs.state_transitions import end_attempt
from store.leases import RUN_LEASE_S, SELF_FENCE_S
from store.tables import GangMember, Job, Worker

LOST: Final = "lost"
"""The outcome of an attempt whose lease expired."""
MAX_NAMED: Final = 3
"""How many workers a message names."""
STALLED_BY_CODE: Final = (
    "The job has custom code, which may have stalled its worker, so it is not retried by itself."
)
RUN_LOST: Final = (
    Reason.RUN_LOST,
    f"The program that trains it sent nothing for {RUN_LEASE_S:g} s. "
    "The run continues with its next data.",
)
"""The reason and the message for a tracked run."""


# Built once: building a statement takes as long as executing it. The states are literal text, and
# the earliest lease is compared: PostgreSQL would plan a condition on unknown states, or an EXISTS
# of one on times, once for all, to read the whole table until it finds such a row.
_ACTIVE_STATES: Final[BindParameter[str]] = bindparam(
    "states", sorted(ACTIVE), expanding=True, literal_execute=True
)
_MAY_HAVE_EXPIRED: Final = select(
    or_(
        select(func.min(Job.lease_expires_at))
        .where(Job.state.in_(_ACTIVE_STATES))
        .scalar_subquery()
        < now(),
        select(GangMember.job_id)
        .where(GangMember.finished_at.is_(None), GangMember.state == "running")
        .where(GangMember.lease_expires_at < now())
        .exists(),
    )
)


def may_have_expired(connection: Connection) -> bool:
    """Whether a lease of a job or of its ranks has expired; False: there is nothing to end.

    Most rounds end nothing, and so lock nothing.

    Args:
        connection: A connection without a transaction: it is one statement.
    """
    return bool(connection.scalar(_MAY_HAVE_EXPIRED))


def expire(session: Session) -> list[Job]:
    """End every attempt whose lease has expired; returns the updated jobs."""
    # A stopping process may still run until its disconnected worker ends it (SELF_FENCE_S).
    is_silent = or_(
        Job.lease_expires_at < from_now(-SELF_FENCE_S), has_expired_ranks(from_now(-SELF_FENCE_S))
    )
    lost = or_(Job.lease_expires_at < now(), has_expired_ranks(now()))
    message = "Its worker stopped sending heartbeats."
    return _end_attempts(session, message, lost, stopping=is_silent, may_be_stalled=True)


def has_expired_ranks(moment: Any) -> ColumnElement[bool]:
    """SQL condition: at this moment, the lease of a worker of the job's ranks had expired."""
    return (
        select(GangMember.job_id)
        .where(GangMember.job_id == Job.id, GangMember.attempt == Job.attempt)
        .where(GangMember.finished_at.is_(None), GangMember.state == "running")
        .where(GangMember.lease_expires_at < moment)
        .exists()
    )


def expire_all(session: Session) -> list[Job]:
    """End every active attempt of a worker, except in allocations; only if no other worker is left.

    The programs of tracked runs, and the workers that a batch system has started, go on.
    """
    of_allocation = (
        select(Worker.id).where(Worker.id == Job.worker_id, Worker.job_id.is_not(None)).exists()
    )
    lost = and_(Job.source == Source.SUBMITTED, ~of_allocation)
    return _end_attempts(
        session, "It was running when the server last stopped.", lost, stopping=lost
    )


def _end_attempts(
    session: Session,
    message: str,
    lost: ColumnElement[bool],
    *,
    stopping: ColumnElement[bool],
    may_be_stalled: bool = False,
) -> list[Job]:
    # In a fixed order, and without waiting for locked jobs: another server may do the same, or a
    # suspended worker may hold the lock.
    active = (
        select(Job.id, Job.attempt, Job.state, Job.source, Job.model)
        .where(Job.state.in_(ACTIVE), lost, or_(Job.state != State.STOPPING, stopping))
        # Each end counts as use of its project: in a fixed order of projects, too.
        .order_by(Job.project, Job.id)
        .with_for_update(skip_locked=True)
    )
    rows = session.execute(active).all()
    jobs = [_end_attempt(session, row, message, may_be_stalled=may_be_stalled) for row in rows]
    return [job for job in jobs if job is not None]


def _end_attempt(session: Session, row: Any, message: str, *, may_be_stalled: bool) -> Job | None:
    reason, message = RUN_LOST if row.source == Source.TRACKED else (Reason.WORKER_LOST, message)
    if row.source == Source.SUBMITTED and (lost := _expired_ranks(session, row)):
        message = f"The worker of {lost} stopped sending heartbeats."
    if row.state != State.STOPPING:
        # Its code may have used up the machine's memory, and would do so on the next one.
        is_stalled_by_code = may_be_stalled and row.model == BUNDLE
        if is_stalled_by_code:
            message += f" {STALLED_BY_CODE}"
        may_retry = not is_stalled_by_code
        return fail(
            session, row.id, row.attempt, reason, message, outcome=LOST, may_retry=may_retry
        )
    fields = {"reason": reason, "message": f"Cancelled on request. {message}"}
    return end_attempt(session, row.id, row.attempt, State.CANCELLED, outcome=LOST, **fields)


def _expired_ranks(session: Session, row: Any) -> str:
    """The ranks whose worker is lost, as text; empty for a job with one rank."""
    lost = session.execute(
        select(GangMember.first_rank, GangMember.ranks, GangMember.worker_id)
        .where(GangMember.job_id == row.id, GangMember.attempt == row.attempt)
        .where(GangMember.finished_at.is_(None), GangMember.lease_expires_at < now())
        .order_by(GangMember.first_rank)
        .limit(MAX_NAMED)
    ).all()
    return " and of ".join(
        f"{rank_names(first, count)} ({worker})" for first, count, worker in lost
    )


def rank_names(first: int, count: int) -> str:
    """These ranks as text, for example `ranks 2 to 3`."""
    return f"rank {first}" if count == 1 else f"ranks {first} to {first + count - 1}"

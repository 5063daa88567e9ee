"""The workers of a gang: from the reservation of their slots to the end of their ranks.

A gang is claimed in the transaction in which the last of its workers writes its addresses. Before,
its reservation ends by itself. Each function locks the job first, so that two transactions never
wait for each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.orm import Session

from ampspec.jobs import ACTIVE, Reason
from ampspec.telemetry.json_values import storable_text
from store.clock import from_now, now
from store.jobs import attempts
from store.tables import Gang, GangMember, Job

RESERVED: Final = "reserved"
READY: Final = "ready"
RUNNING: Final = "running"
ENDED: Final = "ended"
UNCLAIMED: Final = attempts.UNCLAIMED
STOP: Final = "stop"
"""The request of rank 0's worker to the other workers: end your ranks."""


@dataclass(frozen=True)
class Assignment:
    """The ranks that a worker is to get ready."""

    job_id: str
    attempt: int
    first_rank: int
    ranks: int


@dataclass(frozen=True)
class Started:
    """A claimed attempt, as its workers see it: the job, and the address of every rank."""

    job: Job
    addresses: tuple[str, ...]
    control: str
    """Where rank 0 listens for the control channel of the ranks."""


def assigned(session: Session, worker_id: str) -> list[Assignment]:
    """The reservations for which a worker has not reported that it is ready."""
    rows = session.execute(_ASSIGNED, {"worker": worker_id})
    return [Assignment(*row) for row in rows]


def mark_ready(
    session: Session,
    job_id: str,
    attempt: int,
    worker_id: str,
    addresses: Sequence[str],
    *,
    lease_s: float,
) -> bool:
    """Record the addresses of a worker's ranks; the last worker claims the job for all.

    False if the reservation has ended.
    """
    job = session.scalars(select(Job).where(Job.id == job_id).with_for_update()).one_or_none()
    if job is None:
        return False
    statement = (
        update(GangMember)
        .where(*_is_member(job_id, attempt, worker_id), GangMember.state == RESERVED)
        .where(GangMember.lease_expires_at > now())
        .values(state=READY, addresses=list(addresses))
        .returning(GangMember.job_id)
        .execution_options(synchronize_session=False)
    )
    if session.scalars(statement).one_or_none() is None:
        return False
    members = listing(session, job_id, attempt)
    if all(member.state == READY for member in members):
        return _claim(session, job_id, attempt, members, lease_s)
    return True


def _claim(
    session: Session, job_id: str, attempt: int, members: Sequence[GangMember], lease_s: float
) -> bool:
    ranks = sum(member.ranks for member in members)
    claimed = attempts.claim(
        session, job_id, members[0].worker_id, lease_s=lease_s, attempt=attempt, ranks=ranks
    )
    if claimed is None:  # it was cancelled or paused
        delete_reservation(session, job_id)
        return False
    session.execute(
        update(GangMember)
        .where(GangMember.job_id == job_id, GangMember.attempt == attempt)
        .values(state=RUNNING, lease_expires_at=from_now(lease_s))
        .execution_options(synchronize_session=False)
    )
    session.execute(
        update(Gang)
        .where(Gang.job_id == job_id)
        .values(draining_reservations=0, backoff_until=None)
        .execution_options(synchronize_session=False)
    )
    return True


def started(session: Session, job_id: str, attempt: int, worker_id: str) -> Started | bool:
    """The claimed attempt, for a worker that is ready; True while it waits for other workers.

    False once its reservation is over, also if another one for the same worker has followed.
    """
    members = listing(session, job_id, attempt)
    member = next((member for member in members if member.worker_id == worker_id), None)
    job = session.get(Job, job_id, populate_existing=True)
    if member is None or job is None or member.state not in (READY, RUNNING):
        return False
    if member.state == READY:
        return True
    if job.attempt != attempt or job.state not in ACTIVE:
        return False
    addresses = [
        address for member in members for address in (member.addresses or [])[: member.ranks]
    ]
    # The worker of rank 0 has written one address more.
    return Started(job, tuple(addresses), (members[0].addresses or [""])[-1])


def withdraw(session: Session, job_id: str, attempt: int, worker_id: str) -> None:
    """Release a whole reservation, because one of its workers cannot take part."""
    session.execute(select(Job.id).where(Job.id == job_id).with_for_update())
    members = listing(session, job_id, attempt)
    if any(member.worker_id == worker_id and member.state in UNCLAIMED for member in members):
        delete_reservation(session, job_id)


def renew(
    session: Session,
    job_id: str,
    attempt: int,
    worker_id: str,
    *,
    lease_s: float,
    stop_request: str | None = None,
    devices: Sequence[Mapping[str, Any]] | None = None,
) -> tuple[bool, str | None]:
    """Extend the lease of a worker's ranks; (whether the attempt still owns the job, the request).

    `stop_request` says why the attempt must stop, `devices` describes the worker's ranks.
    """
    values: dict[str, Any] = {"lease_expires_at": from_now(lease_s)}
    if stop_request is not None:
        values["stop_request"] = stop_request
    if devices is not None:
        values["devices"] = [dict(device) for device in devices]
    statement = (
        update(GangMember)
        .where(*_is_member(job_id, attempt, worker_id), GangMember.state == RUNNING)
        .where(_attempt_is_active())
        .values(**values)
        .returning(GangMember.requested)
        .execution_options(synchronize_session=False)
    )
    row = session.execute(statement).one_or_none()
    return (row is not None, row[0] if row is not None else None)


def end(
    session: Session,
    job_id: str,
    attempt: int,
    worker_id: str,
    *,
    reason: Reason | None = None,
    message: str | None = None,
    devices: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Record that all ranks of a worker have ended; `reason` says why, unless they succeeded."""
    values: dict[str, Any] = {"state": ENDED, "finished_at": now(), "reason": reason}
    values["message"] = storable_text(message) if message is not None else None
    if devices is not None:
        values["devices"] = [dict(device) for device in devices]
    session.execute(
        update(GangMember)
        .where(*_is_member(job_id, attempt, worker_id), GangMember.finished_at.is_(None))
        .values(**values)
        .execution_options(synchronize_session=False)
    )


def request_stop(session: Session, job_id: str, attempt: int) -> None:
    """Request that all workers end their ranks; by the worker of rank 0."""
    session.execute(
        update(GangMember)
        .where(GangMember.job_id == job_id, GangMember.attempt == attempt)
        .where(GangMember.finished_at.is_(None))
        .values(requested=STOP)
        .execution_options(synchronize_session=False)
    )


def listing(session: Session, job_id: str, attempt: int | None = None) -> Sequence[GangMember]:
    """The workers of one attempt of a job, or of all its attempts, in the order of their ranks."""
    statement = select(GangMember).where(GangMember.job_id == job_id)
    if attempt is not None:
        statement = statement.where(GangMember.attempt == attempt)
    statement = statement.order_by(GangMember.attempt, GangMember.first_rank)
    return session.scalars(statement, execution_options={"populate_existing": True}).all()


def delete_reservation(session: Session, job_id: str) -> None:
    """Give the reserved slots of a gang back; it must not be claimed."""
    session.execute(
        delete(GangMember)
        .where(GangMember.job_id == job_id, GangMember.state.in_(UNCLAIMED))
        .execution_options(synchronize_session=False)
    )


def end_expired_members(session: Session) -> None:
    """Record the end of ranks whose attempt has ended and whose worker no longer renews them."""
    session.execute(
        update(GangMember)
        .where(
            GangMember.finished_at.is_(None),
            GangMember.state == RUNNING,
            GangMember.lease_expires_at < now(),
            ~_attempt_is_active(),
        )
        .values(state=ENDED, finished_at=now(), reason=Reason.WORKER_LOST)
        .execution_options(synchronize_session=False)
    )


def _is_member(job_id: str, attempt: int, worker_id: str) -> tuple[Any, ...]:
    return (
        GangMember.job_id == job_id,
        GangMember.attempt == attempt,
        GangMember.worker_id == worker_id,
    )


def _attempt_is_active() -> Any:
    return (
        select(Job.id)
        .where(Job.id == GangMember.job_id, Job.attempt == GangMember.attempt)
        .where(Job.state.in_(ACTIVE))
        .correlate(GangMember)
        .exists()
    )


# Built once: each worker executes it every second.
_ASSIGNED: Final = (
    select(GangMember.job_id, GangMember.attempt, GangMember.first_rank, GangMember.ranks)
    .where(GangMember.worker_id == bindparam("worker"), GangMember.finished_at.is_(None))
    .where(GangMember.state == RESERVED, GangMember.lease_expires_at > now())
    .order_by(GangMember.created_at, GangMember.job_id)
)

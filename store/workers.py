"""The worker registry: registration, heartbeats, draining, and the state of each worker."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, case, delete, func, select, update
from sqlalchemy.orm import Session

from ampcore.spec import ACTIVE
from ampcore.spec.devices import DeviceInfo
from ampcore.telemetry.json_values import json_safe
from store.clock import after, now
from store.tables import Job, Worker

HEARTBEAT_TIMEOUT_S: Final = 30.0
"""A worker without a heartbeat for this long counts as lost."""

ONLINE: Final = "online"
_STATE: Final = case(
    (Worker.stopped_at.is_not(None), "stopped"),
    (Worker.last_seen_at < after(-HEARTBEAT_TIMEOUT_S), "lost"),
    else_=ONLINE,
)


# Built once: every read of a queued job executes it.
_ONLINE: Final = select(Worker.id, Worker.slots, Worker.queues).where(
    _STATE == ONLINE, Worker.drain_requested_at.is_(None)
)


def register(
    session: Session,
    worker_id: str,
    *,
    hostname: str,
    pid: int,
    slots: int,
    version: str,
    queues: Sequence[str],
) -> None:
    """Register a worker and the queues that it serves."""
    session.add(
        Worker(
            id=worker_id,
            hostname=hostname,
            pid=pid,
            slots=slots,
            version=version,
            queues=list(queues),
        )
    )
    session.flush()


def heartbeat(session: Session, worker_id: str, **values: dict[str, Any] | None) -> bool:
    """Record a heartbeat, with `hardware` and `usage` if known. True if the worker is to drain."""
    known = {name: json_safe(value) for name, value in values.items() if value is not None}
    statement = (
        update(Worker)
        .where(Worker.id == worker_id)
        .values(last_seen_at=now(), **known)
        .returning(Worker.drain_requested_at)
        .execution_options(synchronize_session=False)
    )
    return session.scalars(statement).one_or_none() is not None


def request_drain(session: Session, worker_id: str) -> Worker | None:
    """Request that a worker requeues its jobs and stops; None if there is no such worker."""
    statement = (
        update(Worker)
        .where(Worker.id == worker_id)
        .values(drain_requested_at=func.coalesce(Worker.drain_requested_at, now()))
        .returning(Worker)
        .execution_options(populate_existing=True, synchronize_session=False)
    )
    return session.scalars(statement).one_or_none()


def get(session: Session, worker_id: str) -> tuple[Worker, str] | None:
    """The worker with that id, and its state; None if there is none."""
    row = session.execute(select(Worker, _STATE).where(Worker.id == worker_id)).one_or_none()
    return (row[0], row[1]) if row is not None else None


def online(connection: Connection, queue: str | None = None) -> list[Row[str, int, list[str]]]:
    """The id, slots and queues of each worker that is online and not draining.

    Only those that serve `queue`, if given.
    """
    found = [worker for worker in connection.execute(_ONLINE) if isinstance(worker.queues, list)]
    return [worker for worker in found if queue is None or queue in worker.queues]


def delete_gone(session: Session, *, gone_s: float) -> None:
    """Delete the workers without a heartbeat for `gone_s` seconds and without an active job."""
    busy = select(Job.worker_id).where(Job.state.in_(ACTIVE), Job.worker_id.is_not(None))
    session.execute(
        delete(Worker)
        .where(Worker.last_seen_at < after(-gone_s), Worker.id.not_in(busy))
        .execution_options(synchronize_session=False)
    )


def stopped(session: Session, worker_id: str) -> None:
    """Record that a worker has stopped."""
    _set(session, worker_id, {"last_seen_at": now(), "stopped_at": now()})


def listing(session: Session) -> Sequence[tuple[Worker, str]]:
    """Every worker with its state: online, lost or stopped; the newest first."""
    rows = session.execute(select(Worker, _STATE).order_by(Worker.started_at.desc()))
    return [(worker, word) for worker, word in rows]


def jobs_by_worker(session: Session, *, project: str | None = None) -> Mapping[str, list[str]]:
    """The ids of the active jobs of each worker: all of them, or those of one project."""
    running = select(Job.worker_id, Job.id).where(Job.state.in_(ACTIVE), Job.worker_id.is_not(None))
    rows = session.execute(running.where(Job.project == project) if project else running)
    jobs: defaultdict[str, list[str]] = defaultdict(list)
    for worker_id, job_id in rows:
        jobs[str(worker_id)].append(job_id)
    return jobs


def _set(session: Session, worker_id: str, values: dict[str, Any]) -> None:
    session.execute(
        update(Worker)
        .where(Worker.id == worker_id)
        .values(**values)
        .execution_options(synchronize_session=False)
    )


def online_devices(session: Session) -> list[tuple[DeviceInfo, ...]]:
    """The devices of each online worker that reported its hardware, the newest worker first."""
    return [
        DeviceInfo.from_json(worker.hardware)
        for worker, state in listing(session)
        if state == ONLINE and isinstance(worker.hardware, dict)
    ]

"""The worker registry: registration, heartbeats, draining, and the state of each worker.

A worker with a `job_id` runs this job alone and ends. It is listed, but it is no part of what the
other jobs of its queue may count on: its slots, devices, packages and limits are not reported.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Connection,
    Row,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import aggregate_strings

from ampspec.jobs import ACTIVE
from ampspec.notifications.types import NotificationType
from ampspec.precision.devices import DeviceInfo
from ampspec.telemetry.json_values import json_safe
from store.clock import UtcDateTime, from_now, now, seconds_since
from store.json_text import json_text, json_without, parse_json
from store.notifications import worker_notices
from store.tables import GangMember, Job, Worker

HEARTBEAT_TIMEOUT_S: Final = 30.0
"""A worker without a heartbeat for this long counts as lost."""

ONLINE: Final = "online"
DEVICE_FIELDS: Final = ("devices", "cpu_features", "memory_bytes")
"""The parts of a worker's hardware that describe its devices."""
_STATE: Final = case(
    (Worker.stopped_at.is_not(None), "stopped"),
    (Worker.last_seen_at < from_now(-HEARTBEAT_TIMEOUT_S), "lost"),
    else_=ONLINE,
)
_NEWEST_FIRST: Final = (Worker.started_at.desc(), Worker.id.desc())
_IS_ONLINE: Final = and_(
    Worker.stopped_at.is_(None), Worker.last_seen_at >= from_now(-HEARTBEAT_TIMEOUT_S)
)


_IS_FOR_ANY_JOB: Final = Worker.job_id.is_(None)
"""Not started for one job alone."""

# Built once: every read of a queued job executes it. Hardware may be large: only parts of it.
_ONLINE: Final = select(
    Worker.id,
    Worker.slots,
    Worker.queues,
    json_text(Worker.hardware, "sandbox", "kind").label("sandbox"),
    json_text(Worker.hardware, "gang_host").label("gang_host"),
    json_text(Worker.hardware, "storage_error").label("storage_error"),
    Worker.hostname,
    seconds_since(Worker.last_seen_at).label("silent_s"),
    Worker.job_id,
    seconds_since(Worker.started_at).label("age_s"),
).where(_IS_ONLINE, Worker.drain_requested_at.is_(None))


_QUEUES_TEXT: Final = cast(Worker.queues, Text)
_SLOTS_BY_QUEUES: Final = (
    select(_QUEUES_TEXT.label("queues"), func.sum(Worker.slots).label("slots"))
    .where(_IS_ONLINE, _IS_FOR_ANY_JOB, Worker.drain_requested_at.is_(None))
    .group_by(_QUEUES_TEXT)
)
_BUSY_JOBS: Final = (
    select(Job.worker_id, func.count().label("slots"))
    .where(Job.worker_id.in_(bindparam("worker_ids", expanding=True)))
    .where(Job.state.in_(ACTIVE), Job.ranks == 1)
    .group_by(Job.worker_id)
)
_BUSY_RANKS: Final = (
    select(GangMember.worker_id, func.sum(GangMember.ranks).label("slots"))
    .where(GangMember.worker_id.in_(bindparam("worker_ids", expanding=True)))
    .where(GangMember.finished_at.is_(None), GangMember.state == "running")
    .where(GangMember.lease_expires_at > now())
    .group_by(GangMember.worker_id)
)


class OnlineWorker(NamedTuple):
    """A worker that is online and not draining."""

    id: str
    slots: int
    queues: list[str]
    sandbox: str | None
    """The kind of its sandbox; None without one, and until it has reported its hardware."""
    hostname: str = ""
    gang_host: str | None = None
    """The host of the addresses of its ranks; None while it is not known, or if it runs none."""
    silent_s: float = 0.0
    """Seconds since its last heartbeat."""
    storage_error: str | None = None
    """Why it cannot store files, and takes no job; None if it can."""
    job_id: str | None = None
    """The only job that it runs; None: the jobs of its queues."""
    age_s: float = 0.0
    """Seconds since it was started."""


def register(
    session: Session,
    worker_id: str,
    *,
    hostname: str,
    pid: int,
    slots: int,
    version: str,
    queues: Sequence[str],
    job_id: str | None = None,
) -> None:
    """Register a worker and the queues that it serves; with `job_id` it runs this job alone."""
    worker = Worker(
        id=worker_id,
        hostname=hostname,
        pid=pid,
        slots=slots,
        version=version,
        queues=list(queues),
        job_id=job_id,
    )
    session.add(worker)
    session.flush()
    worker_notices.publish(session, NotificationType.WORKER_STARTED, worker)


class DrainRequest(NamedTuple):
    """A request that a worker requeues its jobs and stops."""

    timeout_s: float | None
    """How long it may store the files of its jobs; None: as long as it is set up to."""


def heartbeat(
    session: Session, worker_id: str, **values: dict[str, Any] | None
) -> DrainRequest | None:
    """Record a heartbeat, with `hardware` and `usage` if known; the drain requested of it."""
    fields = {name: json_safe(value) for name, value in values.items() if value is not None}
    statement = (
        update(Worker)
        .where(Worker.id == worker_id)
        .values(last_seen_at=now(), **fields)
        .returning(Worker.drain_requested_at, Worker.drain_timeout_s)
        .execution_options(synchronize_session=False)
    )
    row = session.execute(statement).one_or_none()
    if row is None or row.drain_requested_at is None:
        return None
    return DrainRequest(row.drain_timeout_s)


def request_drain(
    session: Session, worker_id: str, timeout_s: float | None = None
) -> Worker | None:
    """Request that a worker requeues its jobs and stops; None if there is no such worker.

    A repeated request with another `timeout_s` changes the deadline.
    """
    statement = (
        update(Worker)
        .where(Worker.id == worker_id)
        .values(
            drain_requested_at=func.coalesce(Worker.drain_requested_at, now()),
            drain_timeout_s=func.coalesce(timeout_s, Worker.drain_timeout_s),
        )
        .returning(Worker)
        .execution_options(populate_existing=True, synchronize_session=False)
    )
    worker = session.scalars(statement).one_or_none()
    if worker is not None:
        worker_notices.publish(session, NotificationType.WORKER_DRAINING, worker)
    return worker


def get(session: Session, worker_id: str) -> tuple[Worker, str] | None:
    """The worker with that id, and its state; None if there is none."""
    row = session.execute(select(Worker, _STATE).where(Worker.id == worker_id)).one_or_none()
    return (row[0], row[1]) if row is not None else None


def online(connection: Connection, queue: str | None = None) -> list[OnlineWorker]:
    """The workers that are online, not draining, and run the jobs of any queue, or of `queue`."""
    return [
        worker
        for worker in online_with_job_workers(connection)
        if worker.job_id is None and (queue is None or queue in worker.queues)
    ]


def online_with_job_workers(connection: Connection) -> list[OnlineWorker]:
    """The workers that are online and not draining, also those that run one job alone."""
    return [
        OnlineWorker(
            row.id,
            row.slots,
            row.queues,
            row.sandbox,
            row.hostname,
            row.gang_host,
            float(row.silent_s),
            row.storage_error,
            row.job_id,
            float(row.age_s),
        )
        for row in connection.execute(_ONLINE)
        if isinstance(row.queues, list)
    ]


def slots_by_queues(connection: Connection) -> list[tuple[list[str], int]]:
    """The slots of the workers that are online and not draining, by the queues that they serve.

    Args:
        connection: To the database.

    Returns:
        The queues, and the slots of all workers that serve just these. Nothing else of a worker
        is read: its hardware may be large.
    """
    rows = [(parse_json(row.queues), row.slots) for row in connection.execute(_SLOTS_BY_QUEUES)]
    return [(queues, slots) for queues, slots in rows if isinstance(queues, list)]


def busy_slots(connection: Connection, worker_ids: Collection[str]) -> dict[str, int]:
    """The slots of these workers that run a job or ranks of a gang."""
    busy: Counter[str] = Counter()
    if worker_ids:
        for statement in (_BUSY_JOBS, _BUSY_RANKS):
            for row in connection.execute(statement, {"worker_ids": list(worker_ids)}):
                busy[row.worker_id] += row.slots
    return dict(busy)


def delete_gone(session: Session, *, gone_s: float) -> None:
    """Delete the workers without a heartbeat for `gone_s` seconds and without an active job."""
    busy = select(Job.worker_id).where(Job.state.in_(ACTIVE), Job.worker_id.is_not(None))
    ranks = select(GangMember.worker_id).where(GangMember.finished_at.is_(None))
    session.execute(
        delete(Worker)
        .where(Worker.last_seen_at < from_now(-gone_s), Worker.id.not_in(busy))
        .where(Worker.id.not_in(ranks))
        .execution_options(synchronize_session=False)
    )


def stopped(session: Session, worker_id: str) -> None:
    """Record that a worker has stopped."""
    statement = (
        update(Worker)
        .where(Worker.id == worker_id)
        .values(last_seen_at=now(), stopped_at=now(), lost_at=None)
        .returning(Worker)
        .execution_options(populate_existing=True, synchronize_session=False)
    )
    if (worker := session.scalars(statement).one_or_none()) is not None:
        worker_notices.publish(session, NotificationType.WORKER_STOPPED, worker)


def listing(session: Session) -> Sequence[tuple[Worker, str]]:
    """Every worker with its state: online, lost or stopped; the newest first."""
    rows = session.execute(select(Worker, _STATE).order_by(*_NEWEST_FIRST))
    return [(worker, state) for worker, state in rows]


def page(
    session: Session, *, after_worker: tuple[datetime, str] | None, limit: int | None
) -> Sequence[Any]:
    """The workers with their `state`, the newest first; their hardware without its packages.

    Args:
        session: The session.
        after_worker: When the last worker of the page before was started, and its id.
        limit: The maximum number; None for all.
    """
    columns: list[Any] = [column for column in Worker.__table__.c if column.name != "hardware"]
    columns.append(json_without(Worker.hardware, "packages").label("hardware"))
    statement = select(*columns, _STATE.label("state")).order_by(*_NEWEST_FIRST)
    if after_worker is not None:
        started_at, worker_id = after_worker
        last = tuple_(literal(started_at, UtcDateTime()), literal(worker_id))
        statement = statement.where(tuple_(Worker.started_at, Worker.id) < last)
    return session.execute(statement.limit(limit)).all()


def measurements(session: Session) -> Sequence[Row[Any]]:
    """The id, slots, usage, state and `job_id` of every worker, without its hardware."""
    return session.execute(
        select(Worker.id, Worker.slots, Worker.usage, _STATE.label("state"), Worker.job_id)
    ).all()


def visible_job_ids(
    session: Session, job_ids: Collection[str], *, project: str | None
) -> frozenset[str]:
    """Those of the jobs that a token may see.

    Args:
        session: The session.
        job_ids: The jobs of workers that run one alone.
        project: The project of the token; None: it sees all jobs.
    """
    if project is None or not job_ids:
        return frozenset(job_ids)
    statement = select(Job.id).where(Job.id.in_(job_ids), Job.project == project)
    return frozenset(session.scalars(statement))


def jobs_by_worker(session: Session, *, project: str | None = None) -> Mapping[str, list[str]]:
    """The ids of each worker's active jobs, of all projects or one."""
    running = select(Job.worker_id, Job.id).where(Job.state.in_(ACTIVE), Job.worker_id.is_not(None))
    ranks = (
        select(GangMember.worker_id, Job.id)
        .join(Job, and_(Job.id == GangMember.job_id, Job.attempt == GangMember.attempt))
        .where(Job.state.in_(ACTIVE), GangMember.finished_at.is_(None))
    )
    jobs: defaultdict[str, list[str]] = defaultdict(list)
    for statement in (running, ranks):
        rows = session.execute(statement.where(Job.project == project) if project else statement)
        for worker_id, job_id in rows:
            if job_id not in jobs[str(worker_id)]:  # the worker of rank 0 is in both
                jobs[str(worker_id)].append(job_id)
    return jobs


def online_devices(session: Session) -> list[tuple[DeviceInfo, ...]]:
    """The devices of each online worker that reported its hardware, the newest kind first.

    Workers with the same devices are read once.
    """
    parts = [json_text(Worker.hardware, name).label(name) for name in DEVICE_FIELDS]
    alike = (
        select(*parts, func.count().label("workers"))
        .where(_IS_ONLINE, _IS_FOR_ANY_JOB, Worker.hardware.is_not(None))
        .group_by(*parts)
        .order_by(func.max(Worker.started_at).desc())
    )
    machines: list[tuple[DeviceInfo, ...]] = []
    for row in session.execute(alike):
        document = {name: parse_json(getattr(row, name)) for name in DEVICE_FIELDS}
        machines += [DeviceInfo.from_json(document)] * row.workers
    return machines


def online_memory_limits(session: Session, *, in_sandbox: bool) -> list[int]:
    """The different numbers of bytes that trainers of online workers may allocate.

    Args:
        session: The session.
        in_sandbox: Of trainers in the sandbox for custom code, which has a limit of its own.
    """
    limit = json_text(Worker.hardware, "sandbox" if in_sandbox else "isolation", "memory_bytes")
    statement = select(limit).where(_IS_ONLINE, _IS_FOR_ANY_JOB).distinct()
    limits = map(parse_json, session.scalars(statement))
    return [limit for limit in limits if isinstance(limit, int) and limit > 0]


def online_packages(session: Session) -> dict[str, list[dict[str, Any]]]:
    """By the id of each online worker, what it has reported of its packages."""
    packages = json_text(Worker.hardware, "packages")
    alike = (
        select(packages.label("packages"), aggregate_strings(Worker.id, ",").label("ids"))
        .where(_IS_ONLINE, _IS_FOR_ANY_JOB, Worker.hardware.is_not(None))
        .group_by(packages)
    )
    reported: dict[str, list[dict[str, Any]]] = {}
    for row in session.execute(alike):
        entries = _package_entries(row.packages)
        reported |= dict.fromkeys(row.ids.split(","), entries)
    return reported


def packages_of_queue(session: Session, queue: str) -> list[dict[str, Any]] | None:
    """The entries of packages on the workers that may claim the jobs of a queue.

    None while one of them has not reported its packages yet.
    """
    entries: list[dict[str, Any]] = []
    is_known = Worker.hardware.is_not(None).label("is_known")
    packages = json_text(Worker.hardware, "packages").label("packages")
    serving = select(Worker.queues, is_known, packages).where(
        _IS_ONLINE, _IS_FOR_ANY_JOB, Worker.drain_requested_at.is_(None)
    )
    for row in session.execute(serving):
        if not isinstance(row.queues, list) or queue not in row.queues:
            continue
        if not row.is_known:
            return None
        entries += _package_entries(row.packages)
    return entries


@lru_cache(maxsize=64)  # most workers report the same
def _package_entries(text: str | None) -> list[dict[str, Any]]:
    entries = parse_json(text)
    return (
        [entry for entry in entries or () if isinstance(entry, dict)]
        if isinstance(entries, list)
        else []
    )

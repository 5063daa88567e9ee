"""The registry of workers: who is there, and who has not been heard of."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import case, select, update
from sqlalchemy.orm import Session

from ampcore.spec import ACTIVE
from store.clock import after, now
from store.tables import Job, Worker

SILENCE_S: Final = 30.0
"""A worker that says nothing for so long counts as lost."""


def register(
    session: Session, worker_id: str, *, hostname: str, pid: int, slots: int, version: str
) -> None:
    """A worker says hello."""
    session.add(Worker(id=worker_id, hostname=hostname, pid=pid, slots=slots, version=version))
    session.flush()


def seen(session: Session, worker_id: str, hardware: dict[str, Any] | None = None) -> None:
    """A worker is alive; its hardware, once a trainer process has looked."""
    values: dict[str, Any] = {"last_seen_at": now()}
    if hardware is not None:
        values["hardware"] = hardware
    _set(session, worker_id, values)


def stopped(session: Session, worker_id: str) -> None:
    """A worker says good-bye."""
    _set(session, worker_id, {"last_seen_at": now(), "stopped_at": now()})


def listing(session: Session) -> Sequence[tuple[Worker, str]]:
    """Every worker with its state: online, lost or stopped; the newest first."""
    state = case(
        (Worker.stopped_at.is_not(None), "stopped"),
        (Worker.last_seen_at < after(-SILENCE_S), "lost"),
        else_="online",
    )
    rows = session.execute(select(Worker, state).order_by(Worker.started_at.desc()))
    return [(worker, word) for worker, word in rows]


def jobs_by_worker(session: Session) -> Mapping[str, list[str]]:
    """The ids of the jobs that each worker runs."""
    rows = session.execute(select(Job.worker_id, Job.id).where(Job.state.in_(ACTIVE)))
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

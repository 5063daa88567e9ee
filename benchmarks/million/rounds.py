"""Rounds of background threads, and the cost of a heartbeat, in this process."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import select, text

from server.background.compactor import Compactor
from server.background.reconciler import Reconciler
from server.dispatch import CeleryDispatcher
from store import leases, studies
from store.database import Database
from store.jobs import attempts
from store.tables import Job
from store.telemetry.compaction_queue import uncompacted_attempts

HEARTBEATS: Final = 10


def rounds(database: Database, redis_url: str) -> Mapping[str, Callable[[], object]]:
    """The rounds, by name; each call is one round."""
    reconciler = Reconciler(database, CeleryDispatcher(redis_url))
    compactor = Compactor(database)

    def reconcile() -> None:
        reconciler.expire()
        reconciler.fill_turns()
        reconciler.place_gangs()
        reconciler.redispatch()

    def find_studies() -> None:
        with database.read() as session:
            studies.unfinished(session)
            studies.with_ended_jobs(session)

    def find_blocks() -> None:
        with database.read() as session:
            uncompacted_attempts(session, 50)

    def claim() -> None:
        with database.write() as session:
            assert attempts.claim_next(session, "worker-0", ["default"], lease_s=86_400)

    return {
        "reconciler": reconcile,
        "expire leases": reconciler.expire,
        "dispatch again": reconciler.redispatch,
        "find studies to advance": find_studies,
        "find blocks to merge": find_blocks,
        "merge": compactor.compact,
        "claim": claim,
    }


def heartbeat(database: Database) -> dict[str, Any]:
    """The cost of the heartbeats of all running jobs: WAL bytes, and the share of HOT updates."""
    with database.read() as session:
        running = session.execute(select(Job.id, Job.attempt).where(Job.state == "running")).all()
    _beat(database, running)  # the first one moves each row to a page with room
    before, wal = _updates(database), _wal_position(database)
    for _ in range(HEARTBEATS):
        _beat(database, running)
    count = HEARTBEATS * len(running)
    wal_bytes = _wal_position(database) - wal
    time.sleep(2)  # statistics are reported once a second
    updates, hot = (now - then for now, then in zip(_updates(database), before, strict=True))
    return {
        "heartbeats": count,
        "hot_share": round(hot / max(updates, 1), 3),
        "wal_bytes": round(wal_bytes / count),
    }


def _beat(database: Database, running: Any) -> None:
    for job_id, attempt in running:
        with database.write() as session:
            assert leases.renew_lease(session, job_id, attempt, lease_s=86_400)


def _updates(database: Database) -> tuple[int, int]:
    statement = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'jobs'"
    with database.read() as session:
        updates, hot = session.execute(text(statement)).one()
    return updates, hot


def _wal_position(database: Database) -> int:
    with database.read() as session:
        return int(session.scalar(text("SELECT pg_current_wal_insert_lsn() - '0/0'")) or 0)

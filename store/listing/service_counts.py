"""Counts of all rows of large tables: one server counts, all servers read the result.

Counting a million rows takes seconds. What takes less than INLINE_S is counted when it is read.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from store import metrics_queries
from store.clock import now, seconds_since
from store.database import Database
from store.rows import insert_if_absent
from store.tables import ServiceCount

Counts = Sequence[Sequence[Any]]

COUNTED: Final[Mapping[str, Callable[[Session], Counts]]] = {
    "jobs": metrics_queries.jobs_by_state,
    "waits": metrics_queries.waits,
    "attempts": metrics_queries.attempts_by_outcome,
    "artifacts": metrics_queries.artifact_bytes_by_kind,
}
INLINE_S: Final = 0.01
PAUSES_PER_COUNT: Final = 50
"""Counting takes at most this part of the time."""
MIN_PAUSE_S: Final = 15.0
QUICK_PAUSE_S: Final = 300.0
"""How often it is checked whether a count that is made when it is read still takes no time."""


def read(session: Session) -> dict[str, Counts]:
    """All counts; those that take long are as old as `refresh` lets them become."""
    rows = {row.name: row for row in session.scalars(select(ServiceCount))}
    return {
        name: rows[name].counts if name in rows and rows[name].took_s > INLINE_S else count(session)
        for name, count in COUNTED.items()
    }


def refresh(database: Database) -> list[str]:
    """Count again what is due; returns the names of what was counted."""
    with database.read() as session:
        age_s = seconds_since(ServiceCount.counted_at)
        rows = session.execute(select(ServiceCount.name, ServiceCount.took_s, age_s)).all()
    left_s = {name: _pause_s(took_s) - age_s for name, took_s, age_s in rows}
    due = [name for name in COUNTED if left_s.get(name, 0.0) <= 0]
    for name in due:
        _count(database, name)
    return due


def _pause_s(took_s: float) -> float:
    """Seconds between two counts, if a count takes this number of seconds."""
    return max(PAUSES_PER_COUNT * took_s, MIN_PAUSE_S) if took_s > INLINE_S else QUICK_PAUSE_S


def age_s(session: Session) -> float:
    """The age of the oldest count that is read, in seconds; 0 if all are counted when asked for."""
    oldest = select(func.max(seconds_since(ServiceCount.counted_at)))
    return session.scalar(oldest.where(ServiceCount.took_s > INLINE_S)) or 0.0


def _count(database: Database, name: str) -> None:
    with database.read() as session:
        begin = time.perf_counter()
        counts = COUNTED[name](session)
        took_s = time.perf_counter() - begin
    values = {"counts": counts, "took_s": took_s, "counted_at": now()}
    with database.write() as session:
        session.execute(insert_if_absent(session, ServiceCount, name=name, **values))
        row = session.get_one(ServiceCount, name, with_for_update=True)
        row.counts, row.took_s, row.counted_at = list(counts), took_s, now()

"""Delete expired rows: stopped workers, idempotency keys, browser sessions."""

from typing import Final

from store import browser_sessions, idempotency, workers
from store.database import Database

DAY_S: Final = 86_400.0
WORKER_RETENTION_S: Final = 7 * DAY_S
"""A worker that stopped longer ago is deleted."""


def delete_expired_rows(database: Database) -> None:
    """Delete them once; several servers may do this at the same time."""
    with database.write() as session:
        workers.delete_gone(session, gone_s=WORKER_RETENTION_S)
        idempotency.delete_expired(session)
        browser_sessions.delete_expired(session)

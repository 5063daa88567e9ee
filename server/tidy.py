"""Delete what nobody will ask for any more."""

from typing import Final

from store import idempotency, sessions, workers
from store.database import Database

DAY_S: Final = 86_400.0
WORKERS_GONE_S: Final = 7 * DAY_S
"""A worker that has been gone for so long leaves the list."""


def sweep(database: Database) -> None:
    """One round; a second server that does the same does no harm."""
    with database.write() as session:
        workers.forget(session, gone_s=WORKERS_GONE_S)
        idempotency.forget_old(session)
        sessions.forget_expired(session)

"""The schema revision that this server needs, and the one that a database has.

Only `server.migrate` imports Alembic, which would be a tenth of the API's memory.
"""

from typing import Final

from sqlalchemy import column, inspect, select, table
from sqlalchemy.orm import Session

from store.database import Database

HEAD: Final = "0020"
"""The newest revision in `migrations`; a test compares the two."""

VERSIONS: Final = table("alembic_version", column("version_num"))


def is_current(database: Database) -> bool:
    """Whether the database has the schema that this server needs."""
    with database.read() as session:
        return revision(session) == HEAD


def revision(session: Session) -> str | None:
    """The revision of the database; None if it has no tables."""
    if not inspect(session.connection()).has_table(VERSIONS.name):
        return None
    return session.scalar(select(VERSIONS.c.version_num))

"""The revision of the database schema that this server was written for, and the one it finds.

Alembic itself is loaded by `server.migrate` alone: it would be a tenth of the API's memory.
"""

from typing import Final

from sqlalchemy import column, inspect, select, table
from sqlalchemy.orm import Session

from store.database import Database

HEAD: Final = "0005"
"""The newest revision in `migrations`; a test holds the two together."""

VERSIONS: Final = table("alembic_version", column("version_num"))


def is_current(database: Database) -> bool:
    """True when the database has the tables that this server was written for."""
    with database.read() as session:
        return revision(session) == HEAD


def revision(session: Session) -> str | None:
    """The revision that the database is at; None for one without tables."""
    if not inspect(session.connection()).has_table(VERSIONS.name):
        return None
    return session.scalar(select(VERSIONS.c.version_num))

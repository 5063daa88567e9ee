"""The schema revision that this server needs, and the one that a database has.

Only `server.migrate` imports Alembic, which would be a tenth of the API's memory.
"""

from typing import Final

from sqlalchemy import Connection, column, delete, insert, inspect, select, table
from sqlalchemy.orm import Session

from store.database import Database
from store.tables import SchemaCompatibility

HEAD: Final = "0032"
"""The newest revision in `migrations`; a test compares the two."""
OLDEST_COMPATIBLE: Final = "0020"
"""The oldest HEAD of a version whose servers and workers work with this schema, beside this one.

Raise it only with a revision that removes or renames what that version uses.
"""

OLDEST: Final = "0003"
"""The oldest revision that can be upgraded: that of version 0.5."""

VERSIONS: Final = table("alembic_version", column("version_num"))


class SchemaTooOld(Exception):
    """The database has a revision that this version cannot upgrade."""


def is_current(database: Database) -> bool:
    """Whether this server works with the schema of the database."""
    with database.read() as session:
        return is_compatible(session)


def is_compatible(session: Session) -> bool:
    """Whether the schema is this server's, or a newer one that keeps what this server uses."""
    newest = revision(session)
    if newest is None or newest <= HEAD:
        return newest == HEAD
    oldest = session.scalar(select(SchemaCompatibility.oldest_revision))
    return oldest is not None and oldest <= HEAD


def revision_of(database: Database) -> str | None:
    """The revision of the database; None if it has no tables."""
    with database.read() as session:
        return revision(session)


def revision(session: Session) -> str | None:
    """The revision of the database; None if it has no tables."""
    if not inspect(session.connection()).has_table(VERSIONS.name):
        return None
    return session.scalar(select(VERSIONS.c.version_num))


def check_upgradable(database: Database) -> str | None:
    """The revision of the database. Raises SchemaTooOld if it is from before version 0.5."""
    current = revision_of(database)
    if current is not None and current < OLDEST:
        raise SchemaTooOld(
            f"its schema has revision {current}, expected {OLDEST} or newer. Upgrade it with "
            "version 0.5 first"
        )
    return current


def record_compatibility(connection: Connection) -> None:
    """Record, after a migration, which versions work with the schema."""
    connection.execute(delete(SchemaCompatibility))
    connection.execute(insert(SchemaCompatibility).values(oldest_revision=OLDEST_COMPATIBLE))

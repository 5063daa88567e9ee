"""Bring the database's schema up to date, with the Alembic migrations installed with us."""

from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.engine import make_url

from store.database import Database

LOCK: Final = 0x616D7063
"""The advisory lock that one migration holds in PostgreSQL: "ampc"."""


def migrate(database_url: str) -> None:
    """Create the tables, or bring older ones up to date.

    Safe when several servers start at once: they take turns.
    """
    url = make_url(database_url)
    sqlite = url.get_backend_name() == "sqlite"
    if sqlite and url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    database = Database(database_url)
    try:
        # On SQLite this transaction holds the only write lock from its first moment.
        with database.engine.execution_options(writes=True).connect() as connection:
            if sqlite:
                _forget_foreign_keys(connection)
            with connection.begin():
                if not sqlite:
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
                command.upgrade(config(connection), "head")
    finally:
        database.close()


def config(connection: sa.Connection | None = None) -> Config:
    """Alembic's configuration, to work on one connection."""
    made = Config()
    folder = str(files("migrations")).replace("%", "%%")  # a % starts an interpolation here
    made.set_main_option("script_location", folder)
    made.attributes["connection"] = connection
    return made


def _forget_foreign_keys(connection: sa.Connection) -> None:
    """For this connection only: rebuilding a table must not delete the rows that point to it."""
    raw: Any = connection.connection.dbapi_connection
    raw.execute("PRAGMA foreign_keys = OFF")  # has no effect inside a transaction

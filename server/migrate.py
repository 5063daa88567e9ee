"""Migrate the database schema to the newest revision, with the installed Alembic migrations."""

from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.engine import make_url

from store.database import Database

ADVISORY_LOCK: Final = 0x616D7063
"""Key of PostgreSQL's advisory lock during a migration: "ampc" in ASCII."""


def migrate(database_url: str) -> None:
    """Create the tables, or upgrade older ones.

    Several servers may start at once: a lock lets one migrate at a time.
    """
    url = make_url(database_url)
    sqlite = url.get_backend_name() == "sqlite"
    if sqlite and url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    database = Database(database_url)
    try:
        # On SQLite this transaction takes the write lock at its beginning.
        with database.engine.execution_options(writes=True).connect() as connection:
            if sqlite:
                _disable_foreign_keys(connection)
            with connection.begin():
                if not sqlite:
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(ADVISORY_LOCK)))
                command.upgrade(alembic_config(connection), "head")
    finally:
        database.close()


def alembic_config(connection: sa.Connection | None = None) -> Config:
    """Alembic's configuration, for use with one connection."""
    config = Config()
    folder = str(files("migrations")).replace("%", "%%")  # configparser interpolates %
    config.set_main_option("script_location", folder)
    config.attributes["connection"] = connection
    return config


def _disable_foreign_keys(connection: sa.Connection) -> None:
    """For this connection: rebuilding a table must not cascade to the rows that refer to it."""
    raw: Any = connection.connection.dbapi_connection
    raw.execute("PRAGMA foreign_keys = OFF")  # has no effect inside a transaction

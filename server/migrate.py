"""Migrate the database schema to the newest revision, with the installed Alembic migrations.

On PostgreSQL servers and workers go on meanwhile: each revision is a transaction of its own, waits
only briefly for locks, and tries again; large indexes and updates are made outside of it
(migrations.online). An upgrade that was interrupted continues where it was.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from ampspec.documents.text import plural
from server import schema
from store.database import Database

log = logging.getLogger(__name__)

IS_ONLINE: Final = "is_online"
"""Attribute of Alembic's configuration, which `migrations.online` reads."""
ADVISORY_LOCK: Final = 0x616D7063
"""Key of PostgreSQL's advisory lock during a migration: "ampc" in ASCII."""
LARGE_TABLE_ROWS: Final = 10_000
POLL_S: Final = 0.2
LOCK_TIMEOUT_S: Final = 3.0
"""How long a revision waits for a lock: all who want the table meanwhile wait behind it."""
LOCK_RETRY_S: Final = 1.0
MAX_LOCK_WAIT_S: Final = 600.0
"""A revision that did not get its locks for so long fails."""
LOCK_NOT_AVAILABLE: Final = "55P03"

Report = Callable[[str], None]


@dataclass(frozen=True)
class Revision:
    """A step of an upgrade."""

    id: str
    title: str


def migrate(database_url: str, *, report: Report = log.info) -> None:
    """Create the tables, or upgrade older ones.

    Several servers may start at once: a lock lets one migrate at a time. `report` gets lines about
    how far it is. Raises OperationalError if a revision did not get its locks within
    MAX_LOCK_WAIT_S, and SchemaTooOld if the database is from before version 0.5.
    """
    url = make_url(database_url)
    sqlite = url.get_backend_name() == "sqlite"
    if sqlite and url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    database = Database(database_url)
    try:
        current = schema.check_upgradable(database)
        if current is not None and current > schema.HEAD:
            report(f"The schema has revision {current}, which is newer than this version.")
            return
        if current is None:
            report = log.debug  # there is nothing that takes long
        # On SQLite each transaction takes the write lock at its beginning.
        with database.engine.execution_options(writes=True).connect() as connection:
            if sqlite:
                _disable_foreign_keys(connection)
                _upgrade_sqlite(connection, report)
            else:
                _take_advisory_lock(connection, report)
                _upgrade_postgresql(connection, report)
            with connection.begin():
                schema.record_compatibility(connection)
    finally:
        database.close()


def plan(database_url: str) -> list[str]:
    """What `migrate` would do, as lines of text; nothing is changed."""
    url = make_url(database_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        return ["There is no database yet: all tables would be created."]
    database = Database(database_url)
    try:
        if (schema.check_upgradable(database) or "") > schema.HEAD:
            return ["Nothing to do: the schema is newer than this version."]
        with database.engine.connect() as connection:
            pending = _pending(connection)
            rows = _large_tables(connection)
    finally:
        database.close()
    if not pending:
        return ["Nothing to do: the schema is up to date."]
    revisions = [f"{revision.id}  {revision.title}" for revision in pending]
    return [f"{plural(len(pending), 'revision')} would run:", *revisions, *rows]


def _large_tables(connection: sa.Connection) -> list[str]:
    """The largest tables with their estimated numbers of rows; SQLite has no estimates."""
    if connection.dialect.name == "sqlite":
        return []
    largest = sa.text(
        "SELECT relname, reltuples FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid) "
        "AND reltuples > :least AND relname NOT LIKE 'pg\\_%' ORDER BY reltuples DESC LIMIT 5"
    )
    rows = connection.execute(largest, {"least": LARGE_TABLE_ROWS}).all()
    return [f"{row.relname}: about {int(row.reltuples):,} rows" for row in rows]


def alembic_config(connection: sa.Connection | None = None, report: Report = log.info) -> Config:
    """Alembic's configuration, for use with one connection."""
    config = Config()
    folder = str(files("migrations")).replace("%", "%%")  # configparser interpolates %
    config.set_main_option("script_location", folder)
    config.attributes["connection"] = connection
    config.attributes["report"] = report
    return config


def _pending(connection: sa.Connection) -> Sequence[Revision]:
    current = MigrationContext.configure(connection).get_current_revision()
    scripts = ScriptDirectory.from_config(alembic_config())
    newer = scripts.iterate_revisions("head", current or "base")
    return [Revision(script.revision, script.doc) for script in newer][::-1]


def _upgrade_sqlite(connection: sa.Connection, report: Report) -> None:
    """Run each revision in a transaction; another process may run some of them in between."""
    while True:
        with connection.begin():
            pending = _pending(connection)
            if pending:
                report(_start_of(pending))
                command.upgrade(alembic_config(connection, report), pending[0].id)
        if len(pending) <= 1:
            return


def _upgrade_postgresql(connection: sa.Connection, report: Report) -> None:
    """Run each revision; Alembic begins and commits its transactions."""
    config = alembic_config(connection, report)
    config.attributes[IS_ONLINE] = True
    pending = _pending(connection)
    connection.rollback()
    for number, revision in enumerate(pending):
        report(_start_of(pending[number:]))
        _with_brief_locks(connection, partial(command.upgrade, config, revision.id), report)


def _start_of(pending: Sequence[Revision]) -> str:
    later_revisions = f" ({len(pending) - 1} after it)" if len(pending) > 1 else ""
    return f"Revision {pending[0].id}{later_revisions}: {pending[0].title}"


def _with_brief_locks(
    connection: sa.Connection, upgrade: Callable[[], None], report: Report
) -> None:
    """Try a revision until it gets its locks, without keeping others waiting behind it."""
    deadline = time.monotonic() + MAX_LOCK_WAIT_S
    while True:
        connection.execute(sa.text(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'"))
        connection.commit()
        try:
            upgrade()
        except OperationalError as error:
            connection.rollback()
            is_locked = getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE
            if not is_locked or time.monotonic() > deadline:
                raise
            report("A transaction uses a table that is to change; trying again.")
            time.sleep(LOCK_RETRY_S)
        else:
            return


def _take_advisory_lock(connection: sa.Connection, report: Report) -> None:
    """Take the lock of migrations until the session ends.

    It is polled: a session that waits for it would have a transaction, for whose end a concurrent
    index waits.
    """
    take = sa.select(sa.func.pg_try_advisory_lock(ADVISORY_LOCK))
    is_waiting = False
    while True:
        is_free = connection.scalar(take)
        connection.commit()
        if is_free:
            return
        if not is_waiting:
            report("Another process migrates the database; waiting for it.")
        is_waiting = True
        time.sleep(POLL_S)


def _disable_foreign_keys(connection: sa.Connection) -> None:
    """For this connection: rebuilding a table must not cascade to the rows that refer to it."""
    raw: Any = connection.connection.dbapi_connection
    raw.execute("PRAGMA foreign_keys = OFF")  # has no effect inside a transaction

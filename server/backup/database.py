"""Copy a database into a file, and a file into an empty database.

SQLite: its backup API. PostgreSQL: pg_dump and pg_restore, whose version must not be older than the
server's.
"""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import URL, Connection, create_engine, make_url
from sqlalchemy.exc import SQLAlchemyError

from server import schema
from server.backup.files import make_folder
from server.backup.manifest import BackupFailed, DatabaseCopy, StoredFile, sha256_of
from store.tables import Base

SQLITE_FILE: Final = "database.sqlite"
POSTGRESQL_FILE: Final = "database.dump"
COUNTED: Final = (
    *("projects", "tokens", "jobs", "attempts", "events", "artifacts", "dataset_versions"),
    *("project_files", "model_versions", "studies", "audit"),
)
"""The tables whose rows are counted, to compare them after a restore."""
OWNER_ONLY: Final = 0o600

Inspect = Callable[[Connection], None]
"""Reads more from the database as it is in the copy."""


def dump(database_url: str, folder: Path, inspect: Inspect) -> DatabaseCopy:
    """Copy the database into a folder while it is in use.

    Args:
        database_url: The database.
        folder: Of the backup.
        inspect: Called with a connection that sees exactly what the copy has.

    Raises:
        BackupFailed: It has not the tables of this version, or a program failed.
    """
    url = make_url(database_url)
    if url.get_backend_name() == "sqlite":
        return _dump_sqlite(url, folder / SQLITE_FILE, inspect)
    return _dump_postgresql(url, folder / POSTGRESQL_FILE, inspect)


def load(database_url: str, folder: Path, copy: DatabaseCopy) -> None:
    """Fill an empty database from a copy, all of it or nothing. Raises BackupFailed."""
    url, file = make_url(database_url), folder / copy.file.path
    if copy.kind == "sqlite":
        target = Path(url.database or "")
        make_folder(target.parent)
        part = target.with_name(f"{target.name}.part")
        part.touch(OWNER_ONLY)  # before it has content
        shutil.copyfile(file, part)
        part.chmod(OWNER_ONLY)
        part.rename(target)
    else:
        options = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
        _run_program("pg_restore", url, (*options, str(file)))
    rows = _with_connection(url, _row_counts)
    if rows != copy.rows:
        raise BackupFailed(
            f"The restored database has other numbers of rows than the backup: {rows}, expected "
            f"{copy.rows}."
        )


def check_empty(database_url: str, copy: DatabaseCopy) -> None:
    """Raise BackupFailed unless the database is of the copy's kind, and has no tables."""
    url = make_url(database_url)
    kind = url.get_backend_name()
    if kind != copy.kind:
        raise BackupFailed(
            f"The backup is of a {copy.kind} database, AMPCORE_DATABASE_URL names one of {kind}: "
            "set it to an empty database of the same kind."
        )
    if kind == "sqlite" and not Path(url.database or "").exists():
        return
    tables = _with_connection(url, lambda connection: sa.inspect(connection).get_table_names())
    if tables:
        raise BackupFailed(
            f"The {kind} database {url.database} has {len(tables)} tables: a backup is restored "
            "only into an empty one. Create another, and set AMPCORE_DATABASE_URL to it."
        )


def _dump_sqlite(url: URL, file: Path, inspect: Inspect) -> DatabaseCopy:
    source = Path(url.database or "")
    if not source.is_file():
        raise BackupFailed(f"There is no SQLite file {source}; check AMPCORE_DATABASE_URL.")
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as original,
        closing(sqlite3.connect(file)) as copy,
    ):
        original.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        [(result,)] = copy.execute("PRAGMA integrity_check(1)").fetchall()
        if result != "ok":
            raise BackupFailed(f"The SQLite file {source} is damaged: {result}")
    file.chmod(OWNER_ONLY)
    facts = _with_connection(make_url(f"sqlite:///{file}"), lambda reader: _facts(reader, inspect))
    return _copy("sqlite", file, facts)


def _dump_postgresql(url: URL, file: Path, inspect: Inspect) -> DatabaseCopy:
    def run(connection: Connection) -> tuple[str, dict[str, int]]:
        facts = _facts(connection, inspect)
        snapshot = connection.scalar(sa.text("SELECT pg_export_snapshot()"))
        options = ("--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}")
        _run_program("pg_dump", url, (*options, f"--file={file}"))
        return facts

    file.touch(OWNER_ONLY)
    return _copy("postgresql", file, _with_connection(url, run, isolation="REPEATABLE READ"))


def _facts(connection: Connection, inspect: Inspect) -> tuple[str, dict[str, int]]:
    """The revision of the schema and the numbers of rows."""
    tables = sa.inspect(connection).get_table_names()
    if schema.VERSIONS.name not in tables:
        raise BackupFailed("The database has no tables: run `ampserver migrate` first.")
    revision = connection.scalar(sa.select(schema.VERSIONS.c.version_num)) or ""
    if revision != schema.HEAD:
        raise BackupFailed(
            f"The database has the revision {revision}, and this version of ampserver knows "
            f"{schema.HEAD}: run `ampserver migrate`, or the ampserver of the service."
        )
    inspect(connection)
    return revision, _row_counts(connection)


def _row_counts(connection: Connection) -> dict[str, int]:
    counts = {}
    for name in COUNTED:
        statement = sa.select(sa.func.count()).select_from(Base.metadata.tables[name])
        counts[name] = connection.scalar(statement) or 0
    return counts


def _copy(kind: Any, file: Path, facts: tuple[str, dict[str, int]]) -> DatabaseCopy:
    stored = StoredFile(path=file.name, size_bytes=file.stat().st_size, sha256=sha256_of(file))
    return DatabaseCopy(kind=kind, file=stored, schema_revision=facts[0], rows=facts[1])


def _with_connection(url: URL, work: Callable[[Connection], Any], *, isolation: Any = None) -> Any:
    """The result of work in a transaction that is rolled back."""
    if url.get_backend_name() == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    options = {"isolation_level": isolation} if isolation is not None else {}
    engine = create_engine(url, hide_parameters=True, poolclass=sa.NullPool, **options)
    try:
        with engine.connect() as connection:
            return work(connection)
    except SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        raise BackupFailed(f"The database {url.database} cannot be used: {cause}") from None
    finally:
        engine.dispose()


def _run_program(name: str, url: URL, arguments: Sequence[str]) -> None:
    """Run a program of PostgreSQL on a database; the password is in its environment only."""
    program = shutil.which(name)
    if program is None:
        raise BackupFailed(
            f"The program {name} is missing: install the client of PostgreSQL (Debian: "
            "postgresql-client), in no older version than the server's."
        )
    address = url.set(drivername="postgresql", password=None).render_as_string()
    environment = os.environ | ({"PGPASSWORD": str(url.password)} if url.password else {})
    command = [program, f"--dbname={address}", *arguments]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise BackupFailed(f"{name} failed: {finished.stderr.strip()[-2000:]}")

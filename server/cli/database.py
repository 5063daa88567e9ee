"""Error messages of commands about the database; they never contain its password."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from server import schema
from store.database import Database

VARIABLE: Final = "AMPCORE_DATABASE_URL"
WAIT_INTERVAL_S: Final = 0.5


class DatabaseUnusable(Exception):
    """The database cannot be used; the message says which one, and why."""


def describe_database(url: str) -> str:
    """A description of the database: its file, or its name and host."""
    address = make_url(url)
    if address.get_backend_name() == "sqlite":
        return f"SQLite file {address.database}"
    port = f":{address.port}" if address.port else ""
    return f"PostgreSQL database {address.database} on {address.host or 'this machine'}{port}"


@contextmanager
def database_errors_as_unusable(url: str) -> Iterator[None]:
    """Turn database and connection errors inside into DatabaseUnusable."""
    try:
        yield
    except (SQLAlchemyError, OSError, schema.SchemaTooOld) as error:
        cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        raise DatabaseUnusable(
            f"{VARIABLE}: the {describe_database(url)} cannot be used: {cause}."
        ) from None


def wait_for_database(url: str, timeout_s: float) -> None:
    """Return when the database answers. Raises DatabaseUnusable after the time."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with database_errors_as_unusable(url), closing(Database(url)) as database:
                with database.read() as session:
                    session.execute(sa.select(1))
                return
        except DatabaseUnusable:
            if time.monotonic() + WAIT_INTERVAL_S > deadline:
                raise
        time.sleep(WAIT_INTERVAL_S)


@contextmanager
def open_migrated(url: str) -> Iterator[Database]:
    """An existing, migrated database. Raises DatabaseUnusable; creates nothing."""
    database = Database(url)
    try:
        with database_errors_as_unusable(url):
            if not (_exists(url) and schema.is_current(database)):
                raise DatabaseUnusable(
                    f"{VARIABLE}: the {describe_database(url)} does not have the tables of this "
                    "version; "
                    "run `ampserver migrate` first."
                )
            yield database
    finally:
        database.close()


def _exists(url: str) -> bool:
    """False for an SQLite file that does not exist yet."""
    address = make_url(url)
    return address.get_backend_name() != "sqlite" or Path(address.database or "").is_file()

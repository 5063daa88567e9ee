"""What a command says of the database that AMPCORE_DATABASE_URL names; never its password."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from server import schema
from store.database import Database

NAME: Final = "AMPCORE_DATABASE_URL"


class DatabaseUnusable(Exception):
    """The message says in one sentence which database, and why."""


def name_of(url: str) -> str:
    """What to call the database: its file, or its name and host."""
    address = make_url(url)
    if address.get_backend_name() == "sqlite":
        return f"SQLite file {address.database}"
    port = f":{address.port}" if address.port else ""
    return f"PostgreSQL database {address.database} on {address.host or 'this machine'}{port}"


@contextmanager
def answering(url: str) -> Iterator[None]:
    """Raises DatabaseUnusable for what the database, or the way to it, fails with inside."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        raise DatabaseUnusable(f"{NAME}: the {name_of(url)} cannot be used: {cause}.") from None


@contextmanager
def with_tables(url: str) -> Iterator[Database]:
    """A database that is there already. Raises DatabaseUnusable, and makes nothing."""
    database = Database(url)
    try:
        with answering(url):
            if not (_is_there(url) and schema.is_current(database)):
                raise DatabaseUnusable(
                    f"{NAME}: the {name_of(url)} does not have the tables of this version; "
                    "run `ampserver migrate` first."
                )
            yield database
    finally:
        database.close()


def _is_there(url: str) -> bool:
    """False for an SQLite file that opening would make."""
    address = make_url(url)
    return address.get_backend_name() != "sqlite" or Path(address.database or "").is_file()

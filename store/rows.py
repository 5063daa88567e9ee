"""Insert rows: without an object for each, or only where they are not there yet."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from store.tables import Base


def write_down(session: Session, table: type[Base], *rows: Mapping[str, Any]) -> None:
    """Insert rows that nobody needs as objects; what the session holds must be flushed."""
    session.connection().execute(insert(table), rows)


def insert_new(session: Session, table: type[Base], **values: Any) -> Any:
    """An INSERT that does nothing where the row is there, also when two come at one time."""
    dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    return dialect.insert(table).values(**values).on_conflict_do_nothing()

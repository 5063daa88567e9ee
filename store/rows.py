"""Insert rows in bulk or if absent, and read a page of rows by `seq`."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Select, insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import InstrumentedAttribute, Session

from store.tables import Base

Row = TypeVar("Row")


def insert_rows(session: Session, table: type[Base], *rows: Mapping[str, Any]) -> None:
    """Insert rows without ORM objects. Rows that they refer to must have been flushed."""
    session.connection().execute(insert(table), rows)


def insert_if_absent(session: Session, table: type[Base], **values: Any) -> Any:
    """An INSERT that does nothing if the row exists, even if two transactions insert it at once."""
    dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    return dialect.insert(table).values(**values).on_conflict_do_nothing()


def insert_or_add(
    session: Session, table: type[Base], key: Mapping[str, Any], **numbers: float
) -> Any:
    """An INSERT that adds to the numbers of the row with this primary key if it exists."""
    dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    statement = dialect.insert(table).values(**key, **numbers)
    added = {name: getattr(table, name) + statement.excluded[name] for name in numbers}
    return statement.on_conflict_do_update(index_elements=list(key), set_=added)


def page_by_seq(
    session: Session,
    statement: Select[Row],
    seq: InstrumentedAttribute[int],
    *,
    before_seq: int | None,
    limit: int,
) -> Sequence[Row]:
    """At most `limit` rows in order of `seq`: the first, or the last with seq < `before_seq`."""
    if before_seq is None:
        return session.scalars(statement.order_by(seq).limit(limit)).all()
    statement = statement.where(seq < before_seq).order_by(seq.desc()).limit(limit)
    return session.scalars(statement).all()[::-1]

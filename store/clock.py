"""SQL expressions for time by the database's clock, which all servers and workers share."""

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BindParameter, DateTime, Dialect, Float, TypeDecorator, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement


class UtcDateTime(TypeDecorator[datetime]):
    """A timestamp in UTC; always an aware datetime in Python."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC; SQLite stores no time zone."""
        if value is None:
            return None
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert from the time zone of the database connection."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class _Now(FunctionElement[datetime]):
    """The database's current time plus some seconds, as an SQL expression."""

    type = UtcDateTime()
    inherit_cache = True


def now() -> Any:
    """The current time, as an SQL expression."""
    return from_now(0.0)


def from_now(seconds: float | BindParameter[float]) -> Any:
    """The current time plus `seconds` (which may be negative), as an SQL expression."""
    return _Now(seconds if isinstance(seconds, BindParameter) else literal(seconds, Float))


class _SecondsBetween(FunctionElement[float]):
    """The number of seconds between two timestamps, as an SQL expression."""

    type = Float()
    inherit_cache = True


def add_sqlite_functions(connection: sqlite3.Connection) -> None:
    """Add the functions that the expressions of this module need to a connection of SQLite."""
    connection.create_function("utc_after", 1, _utc_after)


def _utc_after(seconds: float) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.replace(tzinfo=None).isoformat(" ", "microseconds")  # as SQLAlchemy writes it


def seconds_since(start: Any, until: Any = None) -> Any:
    """The seconds from one timestamp until another (default: now), as an SQL expression."""
    start = literal(start, UtcDateTime()) if isinstance(start, datetime) else start
    return _SecondsBetween(start, now() if until is None else until)


@compiles(_Now, "sqlite")
def _now_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    # The clock of SQLite itself has milliseconds: jobs of one millisecond would have no order.
    return f"utc_after({seconds})"


@compiles(_Now, "postgresql")
def _now_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"(statement_timestamp() + make_interval(secs => {seconds}))"


@compiles(_SecondsBetween, "sqlite")
def _seconds_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    start, until = (compiler.process(clause, **options) for clause in element.clauses)
    return f"((julianday({until}) - julianday({start})) * 86400.0)"


@compiles(_SecondsBetween, "postgresql")
def _seconds_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    start, until = (compiler.process(clause, **options) for clause in element.clauses)
    # Without the cast the result is a numeric, which becomes a Decimal in Python.
    return f"CAST(extract(epoch FROM ({until} - {start})) AS double precision)"

"""Time by the database's clock, so that leases mean the same on every machine."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BindParameter, DateTime, Dialect, Float, TypeDecorator, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement


class Instant(TypeDecorator[datetime]):
    """A moment in UTC; always an aware datetime in Python."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To UTC; SQLite keeps no zone."""
        if value is None:
            return None
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """From whatever zone the database answers in."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class _Moment(FunctionElement[datetime]):
    """The database's present time, moved by some seconds."""

    type = Instant()
    inherit_cache = True


def now() -> Any:
    """The present, as an SQL expression."""
    return after(0.0)


def after(seconds: float | BindParameter[float]) -> Any:
    """The present plus `seconds` (minus, when negative), as an SQL expression."""
    return _Moment(seconds if isinstance(seconds, BindParameter) else literal(seconds, Float))


class _Seconds(FunctionElement[float]):
    """How many seconds lie between two moments."""

    type = Float()
    inherit_cache = True


def seconds_since(start: Any, until: Any = None) -> Any:
    """The seconds from one moment until another (left out: the present), as an SQL expression."""
    start = literal(start, Instant()) if isinstance(start, datetime) else start
    return _Seconds(start, now() if until is None else until)


@compiles(_Moment, "sqlite")
def _sqlite(element: Any, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    # %f is seconds with milliseconds; the zeros make it the six digits that SQLAlchemy writes.
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+f seconds', {seconds}))"


@compiles(_Moment, "postgresql")
def _postgresql(element: Any, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"(clock_timestamp() + make_interval(secs => {seconds}))"


@compiles(_Seconds, "sqlite")
def _sqlite_seconds(element: Any, compiler: Any, **options: Any) -> str:
    start, until = (compiler.process(clause, **options) for clause in element.clauses)
    return f"((julianday({until}) - julianday({start})) * 86400.0)"


@compiles(_Seconds, "postgresql")
def _postgresql_seconds(element: Any, compiler: Any, **options: Any) -> str:
    start, until = (compiler.process(clause, **options) for clause in element.clauses)
    # Without the cast it would be a numeric, and a Decimal in Python.
    return f"CAST(extract(epoch FROM ({until} - {start})) AS double precision)"

"""Checks of the database: schema, indexes, size, clean-up, connections and clock."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.orm import Session

from server import schema
from server.doctor.findings import Finding, ok, problem, size, warning
from store.clock import now
from store.tables.base import Base

SQLITE: Final = "sqlite"
LARGEST: Final = 3
"""How many of the largest tables are named."""
MANY_DEAD_ROWS: Final = 100_000
DEAD_SHARE: Final = 0.5
"""Of the live rows of a table: beyond that, reads are slower and the files grow."""
CONNECTIONS_SHARE: Final = 0.8
CLOCK_TOLERANCE_S: Final = 1.0
SQLITE_BYTES: Final = 20 * 2**30
"""A larger SQLite file is a reason to move to PostgreSQL: one writer at a time."""

SIZES: Final = text(
    "SELECT relname, pg_total_relation_size(relid) AS size_bytes FROM pg_stat_user_tables "
    "ORDER BY size_bytes DESC, relname"
)
DEAD_ROWS: Final = text(
    "SELECT relname, n_dead_tup FROM pg_stat_user_tables "
    "WHERE n_dead_tup > :many AND n_dead_tup > :share * n_live_tup ORDER BY n_dead_tup DESC"
)
INVALID_INDEXES: Final = text(
    "SELECT CAST(indexrelid::regclass AS text) FROM pg_index WHERE NOT indisvalid ORDER BY 1"
)
CONNECTIONS: Final = text(
    "SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), "
    "CAST(current_setting('max_connections') AS integer)"
)


def database_findings(session: Session) -> Iterator[Finding]:
    """What is found in a database that responds; only its schema, if that is of another version."""
    found_schema = _schema(session)
    yield found_schema
    if found_schema.remedy is not None:
        return
    connection = session.connection()
    is_sqlite = connection.dialect.name == SQLITE
    yield _indexes(connection, is_sqlite=is_sqlite)
    yield _size(connection, is_sqlite=is_sqlite)
    if not is_sqlite:
        yield _dead_rows(connection)
        yield _connections(connection)
        yield _clock(session)


def _schema(session: Session) -> Finding:
    revision = schema.revision(session)
    if schema.is_compatible(session):
        newer = "" if revision == schema.HEAD else f", which keeps what {schema.HEAD} uses"
        return ok("schema", f"revision {revision}{newer}")
    if revision is None:
        return problem("schema", "the database has no tables", "Run `ampserver migrate`.")
    if revision > schema.HEAD:
        return problem(
            "schema",
            f"revision {revision}, and this version of ampserver knows {schema.HEAD}",
            "Install the version that migrated the database, or a newer one.",
        )
    return problem(
        "schema",
        f"revision {revision}, expected {schema.HEAD}",
        "Run `ampserver migrate`; `--dry-run` lists what it does.",
    )


def _indexes(connection: Connection, *, is_sqlite: bool) -> Finding:
    """Whether each index of the tables is there, and used."""
    expected = {
        str(index.name) for table in Base.metadata.tables.values() for index in table.indexes
    }
    inspector = inspect(connection)
    present = {
        index["name"]
        for name in inspector.get_table_names()
        for index in inspector.get_indexes(name)
    }
    missing = sorted(expected - present)
    invalid = [] if is_sqlite else list(connection.scalars(INVALID_INDEXES))
    if missing or invalid:
        parts = [f"missing: {', '.join(missing)}"] if missing else []
        parts += [f"not valid, and so not used: {', '.join(invalid)}"] if invalid else []
        return problem(
            "indexes",
            "; ".join(parts),
            "Requests read whole tables. An index that is not valid was left by an interrupted "
            "migration: `REINDEX INDEX CONCURRENTLY` mends it. A missing one is in `migrations`.",
        )
    return ok("indexes", f"all {len(expected)} are there")


def _size(connection: Connection, *, is_sqlite: bool) -> Finding:
    if is_sqlite:
        pages, page_bytes = (
            connection.scalar(text(f"PRAGMA {name}")) or 0 for name in ("page_count", "page_size")
        )
        total_bytes = pages * page_bytes
        if total_bytes > SQLITE_BYTES:
            return warning(
                "size",
                f"SQLite, {size(total_bytes)}",
                "SQLite has one writer at a time: move to PostgreSQL (docs/guides/operating.md).",
            )
        return ok("size", f"SQLite, {size(total_bytes)}")
    sizes = connection.execute(SIZES).all()
    largest = ", ".join(f"{row.relname} {size(row.size_bytes)}" for row in sizes[:LARGEST])
    return ok("size", f"{size(sum(row.size_bytes for row in sizes))}; largest: {largest}")


def _dead_rows(connection: Connection) -> Finding:
    rows = connection.execute(DEAD_ROWS, {"many": MANY_DEAD_ROWS, "share": DEAD_SHARE}).all()
    if not rows:
        return ok("vacuum", "no table has many dead rows")
    return warning(
        "vacuum",
        "; ".join(f"{row.relname} has {row.n_dead_tup:,} dead rows" for row in rows),
        "Autovacuum is behind: let it work more often (autovacuum_vacuum_scale_factor), or run "
        "`VACUUM (ANALYZE)` on these tables.",
    )


def _connections(connection: Connection) -> Finding:
    used, limit = connection.execute(CONNECTIONS).one()
    message = f"{used} of {limit} connections are in use"
    if used > CONNECTIONS_SHARE * limit:
        return warning(
            "connections",
            message,
            "Raise max_connections, or run fewer servers and workers: each may open 50.",
        )
    return ok("connections", message)


def _clock(session: Session) -> Finding:
    """The clock of this machine beside that of the database, by which leases end."""
    begun = datetime.now(UTC)
    moment = session.scalar(select(now()))
    ended = datetime.now(UTC)
    if moment is None:
        return warning("clock", "the database has not said its time", "Ask it: SELECT now().")
    # The answer was made between the two: only what lies outside is a difference.
    ahead_s = max((begun - moment).total_seconds(), 0) - max((moment - ended).total_seconds(), 0)
    if abs(ahead_s) <= CLOCK_TOLERANCE_S:
        return ok("clock", "this machine and the database agree within a second")
    direction = "ahead of" if ahead_s > 0 else "behind"
    return warning(
        "clock",
        f"this machine is {abs(ahead_s):.1f} s {direction} the database",
        "Leases and timeouts go by the database's clock and are right; times in logs are not. Run "
        "an NTP service on both machines.",
    )

"""Changes of large tables while servers and workers use them: indexes and batches of updates.

On PostgreSQL each of these commits by itself, outside the transaction of its revision. A revision
that calls one does only what may be done again: an upgrade that was interrupted repeats it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import sqlalchemy as sa
from alembic import op

IS_ONLINE: Final = "is_online"
"""Attribute of Alembic's configuration: each revision commits by itself (server.migrate)."""
ROWS_PER_BATCH: Final = 2_000
REPORT_EVERY_S: Final = 5.0
ONLINE_LOCK_TIMEOUT: Final = "0"
"""A concurrent index waits for older transactions, a batch for rows; nothing waits for them."""


def add_column(table: str, column: sa.Column[Any]) -> None:
    """Add a column, unless an interrupted upgrade has added it."""
    names = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
    if column.name not in names:
        op.add_column(table, column)


def create_index(name: str, table: str, columns: list[Any], **options: Any) -> None:
    """Create an index without blocking writes; one that an interrupted upgrade left is replaced."""
    with _outside_transaction() as concurrently:
        if concurrently and _is_invalid(name):
            op.drop_index(name, table, postgresql_concurrently=True, if_exists=True)
        if concurrently:
            _report(f"Creating the index {name}.")
        op.create_index(
            name,
            table,
            columns,
            if_not_exists=True,
            postgresql_concurrently=concurrently,
            **options,
        )


def drop_index(name: str, table: str) -> None:
    """Drop an index without blocking anyone."""
    with _outside_transaction() as concurrently:
        op.drop_index(name, table, if_exists=True, postgresql_concurrently=concurrently)


def update_in_batches(table: str, statement: str, *, key: str = "id") -> None:
    """Run an UPDATE for all rows, a batch at a time in the order of a key.

    Args:
        table: The table.
        statement: An UPDATE whose condition excludes rows that are done already, to which the
            condition on the key is added.
        key: A unique column of text.
    """
    limits = sa.text(
        f"SELECT max({key}), count(*) FROM (SELECT {key} FROM {table} WHERE {key} > :after "  # noqa: S608
        f"ORDER BY {key} LIMIT :rows) AS batch"
    )
    update = sa.text(f"{statement} AND {key} > :after AND {key} <= :last")

    def run_batch(connection: sa.Connection, after_id: str) -> tuple[str | None, int]:
        last, count = connection.execute(limits, {"after": after_id, "rows": ROWS_PER_BATCH}).one()
        if last is not None:
            connection.execute(update, {"after": after_id, "last": last})
        return last, count

    in_batches(table, run_batch)


def in_batches(
    table: str, run_batch: Callable[[sa.Connection, str], tuple[str | None, int]]
) -> None:
    """Change all rows of a table, a batch at a time.

    `run_batch` gets the key after which its batch starts, and returns the last key of the batch and
    the number of its rows; None at the end.
    """
    with _outside_transaction() as is_online:
        connection = op.get_bind()
        total = connection.scalar(sa.text(f"SELECT count(*) FROM {table}"))  # noqa: S608
        done, key, reported_at = 0, "", time.monotonic()
        while True:
            with _transaction(connection) if is_online else nullcontext():
                last, count = run_batch(connection, key)
            if last is None:
                return
            done, key = done + count, last
            if time.monotonic() - reported_at >= REPORT_EVERY_S:
                reported_at = time.monotonic()
                _report(f"{table}: {done:,} of {total:,} rows.")


@contextmanager
def _transaction(connection: sa.Connection) -> Iterator[None]:
    """A transaction of a connection whose statements commit by themselves."""
    connection.exec_driver_sql("BEGIN")
    try:
        yield
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")


def _report(text: str) -> None:
    """Tell the person who migrates how far it is."""
    config = op.get_context().config
    report = config.attributes.get("report") if config is not None else None
    if report is not None:
        report(text)


@contextmanager
def _outside_transaction() -> Iterator[bool]:
    """Commit each statement by itself; whether that is so: not on SQLite, nor in one transaction.

    SQLite has one writer at a time, and an upgrade is one transaction for each revision.
    """
    context = op.get_context()
    config = context.config
    if config is None or not config.attributes.get(IS_ONLINE):
        yield False
        return
    with context.autocommit_block():
        lock_timeout = op.get_bind().scalar(sa.text("SHOW lock_timeout"))
        op.execute(f"SET lock_timeout = '{ONLINE_LOCK_TIMEOUT}'")
        yield True
        op.execute(f"SET lock_timeout = '{lock_timeout}'")


def _is_invalid(name: str) -> bool:
    """Whether an interrupted CREATE INDEX CONCURRENTLY left an index that is not used."""
    invalid = sa.text(
        "SELECT 1 FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
        "WHERE relname = :name AND NOT indisvalid AND pg_table_is_visible(pg_class.oid)"
    )
    return op.get_bind().scalar(invalid, {"name": name}) is not None

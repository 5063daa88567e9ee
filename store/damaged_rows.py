"""Read the readable columns of a damaged row: a JSON or timestamp column may hold anything.

A newer version, manual SQL or a broken disk may have written it. One damaged row must not fail
a request for many rows.
"""

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import DataError, OperationalError, SQLAlchemyError

from store.tables import Job


class Unreadable:
    """Takes the place of a value that cannot be read; no response model accepts it."""

    def __repr__(self) -> str:
        return "<unreadable>"


def read_json(text: Any) -> Any:
    """The value of a JSON column, or Unreadable."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return Unreadable()


def is_row_error(error: Exception) -> bool:
    """Whether an error during a fetch of rows means that a row is damaged."""
    if isinstance(error, OperationalError):  # SQLite, for a statement that looks into JSON
        return "malformed JSON" in str(error.orig)
    return isinstance(error, DataError) or not isinstance(error, SQLAlchemyError)


def read_partially(connection: Connection, job_ids: Sequence[str]) -> Sequence[Any]:
    """The existing jobs with those ids; a row that cannot be fetched is read column by column."""
    return [row for job_id in job_ids if (row := _read_row(connection, job_id)) is not None]


def _read_row(connection: Connection, job_id: str) -> Any:
    try:
        return connection.execute(select(Job.__table__).where(Job.id == job_id)).one_or_none()
    except Exception as error:
        if not is_row_error(error):
            raise
    values = {
        column.name: _read_column(connection, job_id, column) for column in Job.__table__.columns
    }
    return SimpleNamespace(**values)


def _read_column(connection: Connection, job_id: str, column: Any) -> Any:
    try:
        return connection.scalar(select(column).where(Job.id == job_id))
    except Exception as error:
        if not is_row_error(error):
            raise
        return Unreadable()

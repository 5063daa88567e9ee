"""Read what can be read of a damaged row: no JSON in a column of JSON, no moment in one of times.

A newer version, a person with an SQL prompt or a broken disk may have written it. Nobody who asks
for other rows, too, may fail because of it.
"""

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import DataError, OperationalError, SQLAlchemyError

from store.tables import Job


class Unreadable:
    """In place of a value that could not be read; no model of an answer takes it for one."""

    def __repr__(self) -> str:
        return "<unreadable>"


def read_json(text: Any) -> Any:
    """The document in a column of JSON, or Unreadable."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return Unreadable()


def is_row_error(error: Exception) -> bool:
    """Whether an error, raised while rows were fetched, says that one of them is damaged."""
    if isinstance(error, OperationalError):  # of SQLite, where a statement looks into JSON
        return "malformed JSON" in str(error.orig)
    return isinstance(error, DataError) or not isinstance(error, SQLAlchemyError)


def read_partially(connection: Connection, job_ids: Sequence[str]) -> Sequence[Any]:
    """The jobs of those ids that are there, column by column where a row cannot be fetched."""
    return [row for job_id in job_ids if (row := _one(connection, job_id)) is not None]


def _one(connection: Connection, job_id: str) -> Any:
    try:
        return connection.execute(select(Job.__table__).where(Job.id == job_id)).one_or_none()
    except Exception as error:
        if not is_row_error(error):
            raise
    values = {column.name: _value(connection, job_id, column) for column in Job.__table__.columns}
    return SimpleNamespace(**values)


def _value(connection: Connection, job_id: str, column: Any) -> Any:
    try:
        return connection.scalar(select(column).where(Job.id == job_id))
    except Exception as error:
        if not is_row_error(error):
            raise
        return Unreadable()

"""Readiness check: database, schema revision, Redis and storage."""

from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from ampspec.jobs import Problem
from infra.storage_check import StorageCheck
from server import schema
from server.dispatch import Dispatcher, RedisUnavailable
from server.errors import Unavailable
from store.database import Database

FIRST_CHECK_S: Final = 5.0
"""How long the end of the first check of the storage is waited for; longer than one takes."""


def check_readiness(
    database: Database, dispatcher: Dispatcher, storage_check: StorageCheck
) -> None:
    """Raise Unavailable with a problem for each part that fails.

    The storage is not asked: it may never answer. Its last check counts.
    """
    parts = (_database(database), _redis(dispatcher), _artifacts(storage_check))
    problems = [problem for problem in parts if problem is not None]
    if problems:
        names = " and ".join(problem.pointer.removeprefix("/") for problem in problems)
        raise Unavailable(f"Not ready: {names}.", problems)


def _database(database: Database) -> Problem | None:
    try:
        with database.read() as session:
            is_compatible, revision = schema.is_compatible(session), schema.revision(session)
    except SQLAlchemyError:
        return Problem("/database", "unreachable", "a database that responds", "no response")
    if is_compatible:
        return None
    expected = f"a schema at revision {schema.HEAD} (run `ampserver migrate`)"
    return Problem("/database", "wrong_schema", expected, revision or "an empty database")


def _redis(dispatcher: Dispatcher) -> Problem | None:
    try:
        dispatcher.pending_messages()
    except RedisUnavailable:
        return Problem("/redis", "unreachable", "a Redis that responds", "no response")
    return None


def _artifacts(storage_check: StorageCheck) -> Problem | None:
    storage_check.start()  # by the first who asks, where the application runs no threads
    error = storage_check.last_error(FIRST_CHECK_S)
    if error is None:
        return None
    return Problem("/artifacts", "unreachable", "a writable storage", error)

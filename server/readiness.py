"""Readiness check: database, schema revision, Redis and storage."""

from sqlalchemy.exc import SQLAlchemyError

from ampcore.spec import Problem
from server import schema
from server.dispatch import Dispatcher, RedisUnavailable
from server.errors import Unavailable
from service.storage import Storage, StorageFailed
from store.database import Database


def check_readiness(database: Database, dispatcher: Dispatcher, storage: Storage) -> None:
    """Raise Unavailable with a problem for each part that fails."""
    parts = (_database(database), _redis(dispatcher), _artifacts(storage))
    found = [problem for problem in parts if problem is not None]
    if found:
        names = " and ".join(problem.pointer.removeprefix("/") for problem in found)
        raise Unavailable(f"Not ready: {names}.", found)


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


def _artifacts(storage: Storage) -> Problem | None:
    try:
        storage.check()
    except StorageFailed as error:
        return Problem("/artifacts", "unreachable", "a writable storage", str(error))
    return None

"""Classification of real errors of SQLite and PostgreSQL."""

import sqlite3
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import create_engine, insert, text
from sqlalchemy.exc import DBAPIError, OperationalError

from store.database import Database
from store.database_errors import CommitOutcomeUnknown, is_outage, is_outcome_unknown
from store.tables import Project


def error_of(work):
    with pytest.raises(DBAPIError) as caught:
        work()
    return caught.value


@pytest.fixture
def execute(database):
    def execute(statement):
        with database.write() as session:
            session.execute(statement)

    return execute


@pytest.mark.parametrize(
    "statement", ["SELECT nonsense FROM jobs", "SELEKT 1", "SELECT no_such_function()"]
)
def test_an_invalid_statement_is_not_an_outage(execute, statement):
    """Fails if every OperationalError counts as an outage: it would be retried forever."""
    assert not is_outage(error_of(lambda: execute(text(statement))))


def test_a_unique_violation_is_not_an_outage(execute):
    assert not is_outage(error_of(lambda: execute(insert(Project).values(name="default"))))


def test_a_missing_table_is_an_outage(execute):
    assert is_outage(error_of(lambda: execute(text("SELECT 1 FROM tables_to_come"))))


def test_a_busy_sqlite_is_an_outage_with_a_known_outcome(sqlite_url):
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as locking_connection:
        locking_connection.isolation_level = None
        locking_connection.execute("BEGIN IMMEDIATE")
        engine = create_engine(sqlite_url, connect_args={"timeout": 0})

        def write():
            with engine.begin() as connection:
                connection.execute(text("DELETE FROM projects"))

        error = error_of(write)
        engine.dispose()
    assert is_outage(error)
    assert not is_outcome_unknown(error)


def test_a_lock_timeout_is_an_outage(postgres_url):
    with closing(Database(postgres_url)) as database:

        def wait():
            with database.write() as first, database.write() as second:
                first.execute(text("LOCK jobs"))
                second.execute(text("SET LOCAL lock_timeout = '1ms'"))
                second.execute(text("LOCK jobs"))

        error = error_of(wait)
    assert is_outage(error)
    assert not is_outcome_unknown(error)


def test_a_terminated_connection_is_an_outage_and_its_commit_has_an_unknown_outcome(postgres_url):
    with closing(Database(postgres_url)) as database:

        def terminate_connection(session):
            with database.write() as second_session:
                pid = session.scalar(text("SELECT pg_backend_pid()"))
                second_session.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})

        def before_the_commit():
            with database.write() as session:
                terminate_connection(session)
                session.execute(text("SELECT 1"))

        def at_the_commit():
            with database.write() as session:
                terminate_connection(session)

        statement_error, commit_error = error_of(before_the_commit), error_of(at_the_commit)
    assert is_outage(statement_error)
    assert not isinstance(statement_error, CommitOutcomeUnknown)
    assert isinstance(commit_error, CommitOutcomeUnknown)


def test_a_commit_that_postgresql_refuses_has_a_known_outcome(postgres_url):
    """A deferred constraint fails at COMMIT: PostgreSQL has answered, so the outcome is known."""
    with closing(Database(postgres_url)) as database:
        with database.write() as session:
            session.execute(text("CREATE TABLE late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)"))

        def write():
            with database.write() as session:
                session.execute(text("INSERT INTO late VALUES (1), (1)"))

        error = error_of(write)
        with database.write() as session:
            session.execute(text("DROP TABLE late"))
    assert not isinstance(error, CommitOutcomeUnknown)
    assert not is_outage(error)


def test_a_serialization_failure_at_the_commit_has_a_known_outcome():
    conflict = psycopg.errors.SerializationFailure()
    error = OperationalError("COMMIT", None, conflict)
    assert is_outage(error)
    assert not is_outcome_unknown(error)

"""Classification of real errors of SQLite and PostgreSQL."""

import sqlite3
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import create_engine, insert, text
from sqlalchemy.exc import DBAPIError, OperationalError

from store.database import Database
from store.database_errors import OutcomeUnknown, is_outage, is_outcome_unknown
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
def test_a_wrong_question_is_no_outage(execute, statement):
    """Fails when every OperationalError or ProgrammingError is one: it is asked for ever."""
    assert not is_outage(error_of(lambda: execute(text(statement))))


def test_a_row_that_is_there_already_is_no_outage(execute):
    assert not is_outage(error_of(lambda: execute(insert(Project).values(name="default"))))


def test_tables_that_are_not_made_yet_are_an_outage(execute):
    assert is_outage(error_of(lambda: execute(text("SELECT 1 FROM tables_to_come"))))


def test_a_sqlite_that_is_busy_is_away_and_did_nothing(sqlite_url):
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as other:
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        engine = create_engine(sqlite_url, connect_args={"timeout": 0})

        def write():
            with engine.begin() as connection:
                connection.execute(insert(Project).values(name="p"))

        error = error_of(write)
        engine.dispose()
    assert is_outage(error)
    assert not is_outcome_unknown(error)


def test_a_lock_that_is_not_given_is_an_outage(postgres_url):
    with closing(Database(postgres_url)) as database:

        def wait():
            with database.write() as first, database.write() as second:
                first.execute(text("LOCK jobs"))
                second.execute(text("SET LOCAL lock_timeout = '1ms'"))
                second.execute(text("LOCK jobs"))

        error = error_of(wait)
    assert is_outage(error)
    assert not is_outcome_unknown(error)


def test_a_connection_that_postgresql_ended_is_an_outage_and_at_the_commit_unknown(postgres_url):
    with closing(Database(postgres_url)) as database:

        def end(session):
            with database.write() as other:
                pid = session.scalar(text("SELECT pg_backend_pid()"))
                other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})

        def before_the_commit():
            with database.write() as session:
                end(session)
                session.execute(text("SELECT 1"))

        def at_the_commit():
            with database.write() as session:
                end(session)

        known, unknown = error_of(before_the_commit), error_of(at_the_commit)
    assert is_outage(known)
    assert not isinstance(known, OutcomeUnknown)
    assert isinstance(unknown, OutcomeUnknown)


def test_a_commit_that_postgresql_refuses_was_not_done(postgres_url):
    """A constraint that is checked at the end: PostgreSQL has answered, so nothing is unknown."""
    with closing(Database(postgres_url)) as database:
        with database.write() as session:
            session.execute(text("CREATE TABLE late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)"))

        def write():
            with database.write() as session:
                session.execute(text("INSERT INTO late VALUES (1), (1)"))

        error = error_of(write)
        with database.write() as session:
            session.execute(text("DROP TABLE late"))
    assert not isinstance(error, OutcomeUnknown)
    assert not is_outage(error)


def test_a_conflict_at_the_commit_was_not_done():
    conflict = psycopg.errors.SerializationFailure()
    error = OperationalError("COMMIT", None, conflict)
    assert is_outage(error)
    assert not is_outcome_unknown(error)

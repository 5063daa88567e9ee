"""Reads that are cancelled from another thread."""

import threading

import pytest
from sqlalchemy import text

from store import cancellation
from store.cancellation import Cancellation, Cancelled
from store.database import Database, StatementLimits
from store.database_errors import is_outage
from tests.databases import ON_POSTGRESQL
from tests.waiting import DEADLINE_S, join, wait_until

ENDLESS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT max(i) FROM n",
    "postgresql": f"SELECT pg_sleep({DEADLINE_S})",
}


@pytest.fixture
def work():
    cancelled = Cancellation()
    token = cancellation.current.set(cancelled)
    yield cancelled
    cancellation.current.reset(token)


def read_for_ever(session):
    while True:  # it may be interrupted before the query has begun
        session.execute(text(ENDLESS[session.connection().dialect.name]))


def test_a_cancelled_read_ends_and_its_connection_is_used_again(database, work):
    def cancel():
        wait_until(lambda: work._connections, "the read has begun")

        def has_ended():
            work.cancel()
            return not work._connections

        wait_until(has_ended, "the read has ended")

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(Cancelled), database.read() as session:
        read_for_ever(session)
    join(thread)
    cancellation.current.set(None)
    with database.read() as session:
        assert session.scalar(text("SELECT 1")) == 1


def test_a_query_that_begins_just_after_its_cancellation_ends(work, monkeypatch):
    """Its first interrupt comes too early, and ends nothing."""
    monkeypatch.setattr(cancellation, "REPEATS_S", (0.001, DEADLINE_S, DEADLINE_S))
    interrupts, is_told = [], threading.Event()

    class Connection:
        def interrupt(self):
            interrupts.append(self)
            if len(interrupts) == 2:
                is_told.set()

    with work.watch(Connection()):
        thread = threading.Thread(target=work.cancel)
        thread.start()
        assert is_told.wait(DEADLINE_S)
    join(thread)
    assert len(interrupts) == 2


def test_nothing_is_read_once_it_is_cancelled(database, work):
    work.cancel()
    with pytest.raises(Cancelled), database.read():
        pytest.fail("it was read")
    with pytest.raises(Cancelled):
        cancellation.check()


def test_a_read_that_has_ended_is_not_interrupted(database, work):
    with database.read() as session:
        session.scalar(text("SELECT 1"))
    assert not work._connections
    work.cancel()


def test_another_error_stays_that_error(database, work):
    with pytest.raises(Exception, match="no_such_table"), database.read() as session:
        session.execute(text("SELECT * FROM no_such_table"))


@ON_POSTGRESQL
@pytest.mark.parametrize(
    "limits",
    [StatementLimits(statement_s=0.05), StatementLimits(lock_s=0.05)],
    ids=["statement", "lock"],
)
def test_a_statement_that_waits_for_a_lock_too_long_is_an_outage(database, database_url, limits):
    limited = Database(database_url, limits=limits)
    with database.write() as session:
        session.execute(text("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(Exception, match="timeout") as caught, limited.read() as second_session:
            second_session.execute(text("SELECT count(*) FROM jobs"))
    limited.close()
    assert is_outage(caught.value)


@ON_POSTGRESQL
def test_connections_have_the_limits_of_their_use(database_url):
    limited = Database(database_url, limits=StatementLimits(statement_s=2.5, lock_s=0.5))
    with limited.read() as session:
        assert session.scalar(text("SHOW statement_timeout")) == "2500ms"
        assert session.scalar(text("SHOW lock_timeout")) == "500ms"
        if session.connection().connection.driver_connection.info.server_version >= 170_000:
            assert session.scalar(text("SHOW transaction_timeout")) == "10s"
    limited.close()

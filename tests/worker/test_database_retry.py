"""Transactions that are retried during an outage, and only then."""

import threading
from types import SimpleNamespace

import pytest
from sqlalchemy.exc import OperationalError, ProgrammingError

from store.database import Database
from worker.database_retry import RetryingDatabase, WriteAbandoned


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """The transactions do nothing: one database is enough."""
    return sqlite_url


def failing(sqlstate: str, tries: list[str], kind: type[Exception] = OperationalError):
    """A transaction that fails with this state, except for the third time."""
    cause = SimpleNamespace(sqlstate=sqlstate)

    def action(_session: object) -> str:
        tries.append(sqlstate)
        if len(tries) < 3:
            raise kind("INSERT", {}, cause)
        return "done"

    return action


@pytest.mark.parametrize("sqlstate", ["57P01", "08006", "55P03", "57014", "40P01", "25006"])
def test_a_transaction_is_retried_after_an_outage(database: Database, sqlstate: str) -> None:
    tries: list[str] = []
    retrying = RetryingDatabase(database, threading.Event(), max_reconnect_wait_s=0)
    assert retrying.write(failing(sqlstate, tries)) == "done"
    assert len(tries) == 3


@pytest.mark.parametrize("sqlstate", ["54000", "XX000", "22P02"])
def test_an_error_that_would_happen_again_is_not_retried(database: Database, sqlstate: str) -> None:
    """Fails if every OperationalError is retried: the attempt would hang until its lease ends."""
    tries: list[str] = []
    retrying = RetryingDatabase(database, threading.Event(), max_reconnect_wait_s=0)
    with pytest.raises(OperationalError):
        retrying.write(failing(sqlstate, tries))
    assert len(tries) == 1


def test_a_retry_ends_with_its_attempt(database: Database) -> None:
    ended = threading.Event()
    ended.set()
    with pytest.raises(WriteAbandoned):
        RetryingDatabase(database, ended, max_reconnect_wait_s=0).write(failing("57P01", []))


def test_a_wrong_statement_is_not_retried(database: Database) -> None:
    tries: list[str] = []
    retrying = RetryingDatabase(database, threading.Event())
    with pytest.raises(ProgrammingError):
        retrying.write(failing("42601", tries, ProgrammingError))
    assert len(tries) == 1

"""Fixtures of the store's tests."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text, update

from store.jobs import jobs
from store.tables import Job
from tests.waiting import wait_until


@pytest.fixture
def put(database):
    """Set columns of a job directly, for states that otherwise arise only with time."""

    def put(job_id, **values):
        with database.write() as session:
            session.execute(update(Job).where(Job.id == job_id).values(**values))

    return put


@pytest.fixture
def in_transaction(database):
    """Call a function of the store in its own transaction."""

    def in_transaction(function, *arguments, **options):
        with database.write() as session:
            return function(session, *arguments, **options)

    return in_transaction


@pytest.fixture
def state_of(database):
    """The state of a job."""

    def state_of(job_id):
        with database.read() as session:
            return jobs.get(session, job_id).state

    return state_of


@pytest.fixture
def until_blocked(database: Any) -> Callable[[threading.Thread], None]:
    """Wait until a thread waits for a lock of another transaction, or has ended.

    SQLite does not report who waits; it allows one writer at a time anyway.
    """
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    of_this = " AND datname = current_database()"

    def is_blocked() -> bool:
        with database.read() as session:
            return bool(session.scalars(text(waiting + of_this)).one())

    def wait(thread: threading.Thread) -> None:
        if database.engine.dialect.name == "postgresql":
            wait_until(lambda: is_blocked() or not thread.is_alive(), "the thread is blocked")

    return wait

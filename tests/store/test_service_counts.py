"""Counts of all rows: those that take long are counted by one server, all others when read."""

import pytest
from sqlalchemy import event, update

from ampspec.jobs import State
from store.clock import from_now
from store.listing import service_counts
from store.tables import ServiceCount


@pytest.fixture
def read(database):
    def read():
        with database.read() as session:
            return service_counts.read(session)

    return read


def put(database, **values):
    with database.write() as session:
        session.execute(update(ServiceCount).values(**values))


def test_what_is_counted_quickly_is_counted_when_it_is_read(database, make_job, read):
    make_job()
    service_counts.refresh(database)
    put(database, took_s=0.0)
    make_job()
    assert read()["jobs"] == [["queued", "default", 2]]
    with database.read() as session:
        assert service_counts.age_s(session) == 0.0


def test_what_takes_long_is_read_as_it_was_counted(database, make_job, read):
    make_job(State.SUCCEEDED)
    assert sorted(service_counts.refresh(database)) == ["artifacts", "attempts", "jobs", "waits"]
    put(database, took_s=2.0, counted_at=from_now(-60))
    make_job()
    counts = read()
    assert counts["jobs"] == [["succeeded", "default", 1]]
    assert counts["attempts"] == [["succeeded", 1]]
    assert counts["waits"][0][-2] == 1
    with database.read() as session:
        assert 50 < service_counts.age_s(session) < 120


def test_counting_takes_a_small_part_of_the_time(database, make_job):
    service_counts.refresh(database)
    put(database, took_s=2.0, counted_at=from_now(-60))
    assert service_counts.refresh(database) == []
    put(database, counted_at=from_now(-2.0 * service_counts.PAUSES_PER_COUNT - 1))
    make_job()
    assert len(service_counts.refresh(database)) == 4


def test_reading_what_was_counted_scans_no_table(database, read):
    service_counts.refresh(database)
    put(database, took_s=2.0)
    statements = []

    def record(_connection, _cursor, statement, *_):
        statements.append(statement)

    event.listen(database.engine, "before_cursor_execute", record)
    read()
    event.remove(database.engine, "before_cursor_execute", record)
    [statement] = [sql for sql in statements if "FROM" in sql]
    assert "FROM service_counts" in statement

import os
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from store.access import projects
from store.database import Database


@pytest.fixture
def sqlite(sqlite_url):
    database = Database(sqlite_url)
    yield database
    database.close()


def test_sqlite_uses_a_wal_with_full_synchronization(sqlite):
    with sqlite.read() as session:
        assert session.scalar(text("PRAGMA synchronous")) == 2  # FULL
        assert session.scalar(text("PRAGMA journal_mode")) == "wal"


def test_a_new_database_waits_while_another_connection_sets_it_up(tmp_path, monkeypatch):
    path = tmp_path / "new.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr("store.database.sleep", lambda _: connection.execute("COMMIT"))
        with closing(Database(f"sqlite:///{path}")) as database, database.read() as session:
            assert session.scalar(text("PRAGMA journal_mode")) == "wal"
        assert not connection.in_transaction  # the new database waited for this lock


def test_a_new_database_that_stays_locked_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("store.database.BUSY_TIMEOUT_S", 0)
    path = tmp_path / "new.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with (
            closing(Database(f"sqlite:///{path}")) as database,
            pytest.raises(OperationalError, match="locked"),
            database.read() as session,
        ):
            session.execute(text("SELECT 1"))


def test_a_write_transaction_excludes_other_writers_before_its_first_write(
    sqlite, sqlite_url, monkeypatch
):
    monkeypatch.setattr("store.database.BUSY_TIMEOUT_S", 0)
    second_database = Database(sqlite_url)
    with sqlite.write() as first:
        first.execute(text("SELECT 1"))
        with second_database.read() as session:
            assert session.scalar(text("SELECT count(*) FROM jobs")) == 0  # readers are not blocked
        with pytest.raises(OperationalError, match="locked"), second_database.write() as session:
            session.execute(text("SELECT 1"))
    second_database.close()


def test_concurrent_read_modify_write_transactions_lose_no_update(database):
    with database.write() as session:
        session.execute(text("UPDATE projects SET max_queued = 0"))

    def count_up(_):
        with database.write() as session:
            query = "SELECT max_queued FROM projects"
            lock = " FOR UPDATE" if session.bind.dialect.name == "postgresql" else ""
            number = int(session.scalar(text(query + lock)))
            session.execute(text("UPDATE projects SET max_queued = :count"), {"count": number + 1})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count_up, range(20)))
    with database.read() as session:
        assert session.scalar(text("SELECT max_queued FROM projects")) == 20


def test_only_the_owner_can_read_an_sqlite_database_and_its_wal_files(tmp_path):
    umask = os.umask(0o022)
    try:
        file = tmp_path / "new.sqlite"
        for _ in range(2):
            database = Database(f"sqlite:///{file}")
            with database.write() as session:
                session.execute(text("CREATE TABLE IF NOT EXISTS t (a)"))
                files = sorted(tmp_path.iterdir())
                assert [path.name for path in files] == [
                    f"new.sqlite{suffix}" for suffix in ("", "-shm", "-wal")
                ]
                assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
            for path in files:
                path.chmod(0o644)  # as an older version left them
            database.engine.dispose()
    finally:
        os.umask(umask)


def test_text_is_text_in_a_postgresql_database_without_a_locale(postgres_server):
    """`initdb` in a container without a locale makes databases in SQL_ASCII."""
    name = "without_locale"
    options = "ENCODING SQL_ASCII TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    url = make_url(postgres_server)
    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} {options}")
        try:
            database = Database(url.set(database=name).render_as_string(hide_password=False))
            with database.read() as session:
                assert session.scalar(text("SELECT 'Größe'")) == "Größe"
            database.close()
        finally:
            connection.exec_driver_sql(f"DROP DATABASE {name}")
    admin.dispose()


OPEN_AND_CLOSE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM jobs").fetchone()
connection.close()
"""


def test_a_new_connection_keeps_the_locks_of_the_others(sqlite_url):
    """Closing any descriptor of a file ends all locks that its process has on it (fcntl(2)).

    Another process would then delete the write-ahead log when it closes its connection, since it
    finds no lock of this one, and the database would be damaged.
    """
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    with closing(Database(sqlite_url)) as database:
        with database.write() as session:
            projects.ensure(session, "before")
        with database.engine.connect() as first, database.engine.connect() as second:
            first.exec_driver_sql("SELECT 1")
            second.exec_driver_sql("SELECT 1")
            subprocess.run([sys.executable, "-c", OPEN_AND_CLOSE, str(file)], check=True)
            assert file.with_name(f"{file.name}-wal").exists()

"""Upgrades while others use the database: brief locks, resumed batches, concurrent indexes."""

import re
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

import server.migrate
from ampspec.documents.text import plural
from migrations import online
from server import schema
from server.migrate import alembic_config, migrate, plan
from store.database import Database
from tests.migrations import old_rows
from tests.tables import every_row
from tests.waiting import join, wait_until

JOB = {**old_rows.JOB, "spec": "{}", "source": "submitted"}
JOBS = 7


def fill(url, insert):
    """Some jobs in a database at revision 0017."""
    database = Database(url)
    with database.engine.execution_options(writes=True).begin() as connection:
        command.upgrade(alembic_config(connection), "0017")
        for number in range(JOBS):
            insert(connection, "jobs", {**JOB, "id": f"{number:012d}"})
    database.close()
    return url


@pytest.fixture
def url(empty_url, insert):
    """The address of a database with jobs, on SQLite and on PostgreSQL."""
    return fill(empty_url, insert)


@pytest.fixture
def postgres_url(new_postgres, insert):
    """The same on PostgreSQL: SQLite has one writer, nobody works beside a migration."""
    return fill(new_postgres(), insert)


@contextmanager
def opened(url):
    database = Database(url)
    yield database
    database.close()


def changed_jobs(connection):
    return connection.scalar(sa.text("SELECT count(*) FROM jobs WHERE changed_at = updated_at"))


def test_every_job_gets_the_time_of_its_last_change(url):
    migrate(url)
    with opened(url) as database, database.engine.connect() as connection:
        assert changed_jobs(connection) == JOBS


def test_an_interrupted_update_goes_on_where_it_was(postgres_url, monkeypatch):
    """Fails if the batches before the interruption are not kept, or done again."""
    monkeypatch.setattr(online, "ROWS_PER_BATCH", 2)
    updates = []
    with opened(postgres_url) as database:

        def interrupt(_connection, _cursor, statement, *_):
            if statement.startswith("UPDATE jobs SET changed_at"):
                updates.append(statement)
                if len(updates) == 3:
                    raise RuntimeError("interrupted")

        sa.event.listen(sa.Engine, "before_cursor_execute", interrupt)
        try:
            with pytest.raises(RuntimeError, match="interrupted"):
                migrate(postgres_url)
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", interrupt)
        with database.engine.connect() as connection:
            assert changed_jobs(connection) == 4
            connection.execute(
                sa.text("UPDATE jobs SET changed_at = NULL WHERE id > '000000000003'")
            )
            connection.execute(
                sa.text("UPDATE jobs SET changed_at = '2030-01-01' WHERE id = '000000000000'")
            )
            connection.commit()
        migrate(postgres_url)
        with database.engine.connect() as connection:
            assert changed_jobs(connection) == JOBS - 1  # the one that changed meanwhile


def test_a_revision_does_not_block_those_who_wait_behind_it(postgres_url, monkeypatch):
    """Fails if a revision waits for its lock for as long as a reader has the table."""
    monkeypatch.setattr(server.migrate, "LOCK_TIMEOUT_S", 0.05)
    monkeypatch.setattr(server.migrate, "LOCK_RETRY_S", 0.01)
    lines = []
    with opened(postgres_url) as database, database.engine.connect() as reader:
        reader.execute(sa.text("SELECT * FROM jobs")).all()  # holds a lock until its end
        thread = threading.Thread(
            target=migrate, args=[postgres_url], kwargs={"report": lines.append}
        )
        thread.start()
        wait_until(lambda: sum("trying again" in line for line in lines) > 1, "two tries")
        with database.engine.connect() as connection:  # behind the revision
            assert connection.scalar(sa.text("SELECT count(*) FROM jobs")) == JOBS
        reader.rollback()
        join(thread)
        with database.engine.connect() as connection:
            assert changed_jobs(connection) == JOBS


def test_a_revision_that_never_gets_its_lock_fails(postgres_url, monkeypatch):
    monkeypatch.setattr(server.migrate, "LOCK_TIMEOUT_S", 0.01)
    monkeypatch.setattr(server.migrate, "LOCK_RETRY_S", 0.01)
    monkeypatch.setattr(server.migrate, "MAX_LOCK_WAIT_S", 0.0)
    with opened(postgres_url) as database, database.engine.connect() as reader:
        reader.execute(sa.text("SELECT * FROM jobs")).all()
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
            migrate(postgres_url)


def test_an_index_of_an_interrupted_upgrade_is_made_again(postgres_url):
    with opened(postgres_url) as database:
        with database.engine.begin() as connection:
            connection.execute(sa.text("CREATE INDEX ix_jobs_name_id ON jobs (id)"))
            connection.execute(
                sa.text(
                    "UPDATE pg_index SET indisvalid = false "
                    "WHERE indexrelid = CAST('ix_jobs_name_id' AS regclass)"
                )
            )
        migrate(postgres_url)
        [index] = [
            index
            for index in sa.inspect(database.engine).get_indexes("jobs")
            if index["name"] == "ix_jobs_name_id"
        ]
        assert index["column_names"] == ["name", "id"]


def test_indexes_are_created_beside_a_transaction_that_writes(postgres_url):
    """Fails if an index of a large table is created with a lock against writes."""
    statements = []

    def record(_connection, _cursor, statement, *_):
        statements.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", record)
    try:
        migrate(postgres_url)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", record)
    new_tables = re.findall(r"CREATE TABLE (\w+)", "\n".join(statements))
    assert "jobs" not in new_tables
    indexes = [
        sql
        for sql in statements
        if sql.startswith("CREATE INDEX") and not re.search(rf" ON ({'|'.join(new_tables)}) ", sql)
    ]
    assert indexes
    assert [sql for sql in indexes if "CONCURRENTLY" not in sql] == []


def online_revisions():
    """The revisions that commit parts of their work by themselves."""
    scripts = ScriptDirectory.from_config(alembic_config()).walk_revisions()
    return [
        script for script in scripts if "migrations.online import" in Path(script.path).read_text()
    ]


@every_row("script", online_revisions())
def test_a_revision_that_was_done_but_not_recorded_is_done_again(new_postgres, script):
    """As after a kill between its last part and the record of it."""
    url = new_postgres()
    with opened(url) as database, database.engine.begin() as connection:
        command.upgrade(alembic_config(connection), script.revision)
        recorded = sa.text("UPDATE alembic_version SET version_num = :before")
        connection.execute(recorded, {"before": script.down_revision})
    migrate(url)
    with opened(url) as database:
        assert schema.is_current(database)


def test_the_plan_names_the_revisions_and_changes_nothing(url):
    lines = plan(url)
    assert lines[0] == f"{plural(len(lines) - 1, 'revision')} would run:"
    scripts = ScriptDirectory.from_config(alembic_config()).iterate_revisions("head", "0017")
    revisions = [script.revision for script in scripts][::-1]
    assert [line.partition(" ")[0] for line in lines[1:]] == revisions
    assert plan(url) == lines
    migrate(url)
    assert plan(url) == ["Nothing to do: the schema is up to date."]


def test_the_plan_of_a_missing_sqlite_file_creates_none(tmp_path):
    file = tmp_path / "none.sqlite"
    assert plan(f"sqlite:///{file}") == ["There is no database yet: all tables would be created."]
    assert not file.exists()

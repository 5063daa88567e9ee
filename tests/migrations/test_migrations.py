import threading

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from server import schema
from server.migrate import alembic_config, migrate
from store.database import Database
from store.tables import Base, Job


@pytest.fixture
def empty(empty_url):
    """A database without tables, migrated by the test."""
    migrate(empty_url)
    database = Database(empty_url)
    yield database
    database.close()


def tables(database):
    return set(inspect(database.engine).get_table_names()) - {"alembic_version"}


def test_the_migrations_create_the_tables_of_the_models(empty):
    assert tables(empty) == set(Base.metadata.tables)
    with empty.engine.begin() as connection:
        command.check(alembic_config(connection))  # raises when a column or an index differs


def test_a_downgrade_to_base_drops_every_table(empty):
    with empty.engine.begin() as connection:
        command.downgrade(alembic_config(connection), "base")
    assert tables(empty) == set()


def test_migrating_again_changes_nothing(empty, empty_url, make_spec):
    from store.jobs import jobs

    with empty.write() as session:
        job_id = jobs.create(session, make_spec(), jobs.Origin("default")).id
    migrate(empty_url)
    with empty.read() as session:
        assert session.get(Job, job_id) is not None


def test_concurrent_migrations_succeed(empty_url):
    errors = []
    start = threading.Barrier(3)

    def run_migration():
        start.wait()
        try:
            migrate(empty_url)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run_migration) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    database = Database(empty_url)
    assert schema.is_current(database)
    database.close()


def test_the_server_knows_the_newest_revision():
    scripts = ScriptDirectory.from_config(alembic_config())
    assert scripts.get_heads() == [schema.HEAD]


def test_an_empty_database_is_not_current(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'empty.sqlite'}")
    assert not schema.is_current(database)
    with database.read() as session:
        assert schema.revision(session) is None
    database.close()


def test_a_missing_folder_of_the_database_is_created(tmp_path):
    file = tmp_path / "new" / "ampcore.sqlite"
    migrate(f"sqlite:///{file}")
    assert file.is_file()

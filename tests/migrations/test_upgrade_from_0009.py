"""Revision 0010 on jobs of older versions: integers of archives are still divided by 255."""

import json

import pytest
import sqlalchemy as sa
from alembic import command

from server.migrate import alembic_config
from store.database import Database
from tests.migrations.old_rows import JOB

SPECS = {
    "a" * 12: {"name": "x", "data": {"kind": "npz", "path": "a.npz"}},
    "b" * 12: {"name": "npz", "data": {"kind": "digits"}},
    "c" * 12: {"name": "x", "data": {"kind": "npz", "path": "a.npz", "preprocessing": {}}},
    "d" * 12: {"name": '"npz"', "data": 7},
}


TOO_DEEP = '{"npz": ' + "[" * 2000 + "]" * 2000 + "}"
"""Python's JSON decoder refuses it; PostgreSQL and SQLite store it."""


def specs(database):
    with database.engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT id, CAST(spec AS TEXT) AS spec FROM jobs"))
        return {row.id: json.loads(row.spec) for row in rows if row.id != "e" * 12}


def move(database, step, revision):
    with database.engine.execution_options(writes=True).begin() as connection:
        step(alembic_config(connection), revision)
    database.engine.dispose()


@pytest.fixture
def database(empty_url, insert):
    database = Database(empty_url)
    with database.engine.execution_options(writes=True).begin() as connection:
        command.upgrade(alembic_config(connection), "0009")
        for job_id, spec in SPECS.items():
            insert(connection, "jobs", {**JOB, "id": job_id, "spec": json.dumps(spec)})
        insert(connection, "jobs", {**JOB, "id": "e" * 12, "spec": TOO_DEEP})
    yield database
    database.close()


def test_archives_of_older_jobs_hold_pixels_and_all_other_specs_stay(database):
    move(database, command.upgrade, "0010")
    stored_specs = specs(database)
    assert stored_specs["a" * 12]["data"] == {
        "kind": "npz",
        "path": "a.npz",
        "preprocessing": {"x": {"rescaling": "pixels"}},
    }
    assert {job_id: stored_specs[job_id] for job_id in stored_specs if job_id != "a" * 12} == {
        job_id: SPECS[job_id] for job_id in SPECS if job_id != "a" * 12
    }


def test_the_downgrade_restores_the_specs(database):
    move(database, command.upgrade, "0010")
    move(database, command.downgrade, "0009")
    assert specs(database) == SPECS

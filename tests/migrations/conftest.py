"""Databases for the tests of migrations, on SQLite and PostgreSQL."""

import pytest
import sqlalchemy as sa

JSON_COLUMNS = {"labels", "spec", "data", "queues"}


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request, tmp_path):
    """The address of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ampcore.sqlite'}"
    return request.getfixturevalue("new_postgres")()


@pytest.fixture(scope="session")
def insert():
    """Write a row of an older revision, for which there are no mapped classes."""

    def insert(connection, table, row):
        json = JSON_COLUMNS if connection.dialect.name == "postgresql" else set()
        values = ", ".join(
            f"CAST(:{name} AS jsonb)" if name in json else f":{name}" for name in row
        )
        statement = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values})"  # noqa: S608
        connection.execute(sa.text(statement), row)

    return insert

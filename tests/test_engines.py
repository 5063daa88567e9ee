"""The engines that tests share read the database of the current test only."""

import sqlite3

from sqlalchemy import text

from tests.conftest import Engines


def test_a_connection_opened_late_by_an_earlier_test_is_not_used(tmp_path):
    for name in ("first", "second"):
        with sqlite3.connect(tmp_path / name) as file:
            file.execute("CREATE TABLE tests (name TEXT)")
            file.execute("INSERT INTO tests VALUES (?)", [name])
        file.close()
    engines = Engines()

    def name_in_database(engine):
        with engine.connect() as connection:
            return connection.execute(text("SELECT name FROM tests")).scalar()

    first = engines.of_app(f"sqlite:///{tmp_path / 'first'}")
    engines.close_files()
    assert name_in_database(first) == "first"  # a request that ends after its test
    second = engines.of_app(f"sqlite:///{tmp_path / 'second'}")
    assert name_in_database(second) == "second"
    engines.close()

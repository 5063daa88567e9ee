"""Markers of tests that run on one kind of database."""

import pytest

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For a test whose result does not depend on the SQL dialect, in a module with others."""

ON_POSTGRESQL = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
"""For a test of transactions or connections at the same time: SQLite has one writer at a time."""

"""A database whose transactions fail when a test says so."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from store.database import Database


class Unreliable:
    """A database whose next transactions fail before they start or after their commit."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.connect_failures = 0
        self.lost_commit_responses = 0
        self.tries = 0
        self.error: Exception = OperationalError(
            "COMMIT", None, Exception("the connection is gone")
        )

    @contextmanager
    def write(self) -> Iterator[Session]:
        self.tries += 1
        if self.connect_failures:
            self.connect_failures -= 1
            raise self.error
        with self.database.write() as session:
            yield session
        if self.lost_commit_responses:
            self.lost_commit_responses -= 1
            raise self.error

    @contextmanager
    def read(self) -> Iterator[Session]:
        if self.connect_failures:
            raise self.error
        with self.database.read() as session:
            yield session

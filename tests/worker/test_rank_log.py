"""The lines of ranks are kept until the database has them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from sqlalchemy.exc import OperationalError, ProgrammingError

from store.telemetry.ingest import LogChunk
from worker.gangs.rank_log import RETRY_S, UnstoredLines

FIRST, SECOND = LogChunk("stdout", "[rank 1] a\n"), LogChunk("stdout", "[rank 1] b\n")


class FakeDatabase:
    """A database whose transactions fail with `error` while there is one."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.tries = 0

    @contextmanager
    def write(self) -> Iterator[Any]:
        self.tries += 1
        yield None
        if self.error is not None:
            raise self.error


def outage() -> Exception:
    return OperationalError("COMMIT", {}, SimpleNamespace(sqlstate="57P01"))


def unstored(stored: list[list[LogChunk]], clock: dict[str, float]) -> UnstoredLines:
    def append(_session: object, lines: Sequence[LogChunk]) -> None:
        stored.append(list(lines))

    return UnstoredLines(append, lambda: clock["s"])


def test_lines_are_kept_during_an_outage_and_stored_after_it() -> None:
    """Fails if an error of the database drops them."""
    stored: list[list[LogChunk]] = []
    clock, database = {"s": 0.0}, FakeDatabase()
    lines = unstored(stored, clock)
    database.error = outage()
    lines.add([FIRST])
    lines.store(database)
    lines.add([SECOND])
    lines.store(database)
    assert database.tries == 1, (
        "the reading of ranks does not wait for the database again and again"
    )
    clock["s"], database.error = RETRY_S, None
    lines.store(database)
    assert stored[-1] == [FIRST, SECOND]
    lines.store(database)
    assert database.tries == 2


def test_lines_that_are_left_at_the_end_are_stored_with_it() -> None:
    stored: list[list[LogChunk]] = []
    database = FakeDatabase()
    lines = unstored(stored, {"s": 0.0})
    database.error = outage()
    lines.add([FIRST])
    lines.store(database)
    stored.clear()
    for _ in range(2):  # the transaction may be repeated
        lines.store_in(None)
    assert stored == [[FIRST], [FIRST]]


def test_lines_that_the_database_refuses_do_not_stop_later_ones() -> None:
    stored: list[list[LogChunk]] = []
    database = FakeDatabase()
    lines = unstored(stored, {"s": 0.0})
    database.error = ProgrammingError("INSERT", {}, SimpleNamespace(sqlstate="42601"))
    lines.add([FIRST])
    lines.store(database)
    database.error = None
    lines.add([SECOND])
    lines.store(database)
    assert stored[-1] == [SECOND]

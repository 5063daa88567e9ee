import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from store import workers
from store.database import Database
from store.tables import Worker
from worker.registration import WorkerRegistration
from worker.shutdown import Shutdown


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


ID = "w0"


@pytest.fixture(autouse=True)
def _short_heartbeat_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.registration.HEARTBEAT_INTERVAL_S", 0.02)


def registration_in(database: Database, **parts: Any) -> WorkerRegistration:
    options: dict[str, Any] = {
        "slots": 2,
        "queues": ("default", "cpu"),
        "hardware": lambda: None,
        "usage": lambda: {"busy": 1},
    }
    return WorkerRegistration(database, ID, **{**options, **parts})


@pytest.fixture
def registration(database: Database) -> Iterator[WorkerRegistration]:
    registration = registration_in(database)
    registration.start()
    yield registration
    registration.stop()


def registered(database: Database) -> tuple[Worker, str] | None:
    with database.read() as session:
        return workers.get(session, ID)


def state(database: Database) -> str | None:
    row = registered(database)
    return row[1] if row is not None else None


def test_a_worker_registers_and_is_marked_as_stopped(
    database: Database, wait_until: Callable[..., Any]
) -> None:
    registration = registration_in(database)
    registration.start()
    wait_until(lambda: state(database) == "online")
    registration.stop()
    assert state(database) == "stopped"


def test_the_row_has_queues_slots_and_usage(
    database: Database, registration: WorkerRegistration, wait_until: Callable[..., Any]
) -> None:
    wait_until(lambda: state(database) == "online")
    row = registered(database)
    assert row is not None
    assert (row[0].queues, row[0].slots, row[0].usage) == (["default", "cpu"], 2, {"busy": 1})


def test_a_deleted_worker_registers_again(
    database: Database, registration: WorkerRegistration, wait_until: Callable[..., Any]
) -> None:
    wait_until(lambda: state(database) == "online")
    with database.write() as session:
        session.execute(delete(Worker))
    wait_until(lambda: state(database) == "online")


def test_a_drain_request_is_followed_once(
    database: Database, wait_until: Callable[..., Any]
) -> None:
    drained: list[bool] = []
    polls: list[bool] = []

    def usage() -> dict[str, Any]:
        polls.append(bool(drained))
        return {}

    shutdown = Shutdown(600.0)
    registration = registration_in(
        database, shutdown=shutdown, drain=lambda: drained.append(True), usage=usage
    )
    registration.start()
    wait_until(lambda: state(database) == "online")
    with database.write() as session:
        workers.request_drain(session, ID)
    wait_until(lambda: polls.count(True) > 2)
    assert shutdown.timeout_s == 600.0
    with database.write() as session:
        workers.request_drain(session, ID, 5.0)
    wait_until(lambda: shutdown.timeout_s == 5.0)
    registration.stop()
    assert drained == [True]


def test_a_drain_sends_sigterm_to_this_process(
    database: Database, wait_until: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("worker.registration.os.kill", lambda *what: sent.append(what))
    monkeypatch.setattr("worker.registration.os.getpid", lambda: 4711)
    registration = registration_in(database)
    registration.start()
    wait_until(lambda: state(database) == "online")
    with database.write() as session:
        workers.request_drain(session, ID)
    wait_until(lambda: sent == [(4711, signal.SIGTERM)])
    registration.stop()


def test_a_failing_metric_does_not_stop_the_heartbeats(
    database: Database, wait_until: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    errors = iter([ValueError("what is this GPU?")])

    def usage() -> dict[str, Any]:
        if (error := next(errors, None)) is not None:
            raise error
        return {}

    registration = registration_in(database, usage=usage)
    registration.start()
    wait_until(lambda: state(database) == "online")
    registration.stop()
    assert "what is this GPU?" in caplog.text


def test_a_worker_started_before_its_database_registers_later(
    migrated_sqlite: Path,
    tmp_path: Path,
    wait_until: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    database = Database(f"sqlite:///{tmp_path / 'later' / 'ampcore.sqlite'}")
    registration = registration_in(database)
    registration.start()
    wait_until(lambda: "cannot write the worker's heartbeat" in caplog.text)
    (tmp_path / "soon").mkdir()
    shutil.copy(migrated_sqlite, tmp_path / "soon" / "ampcore.sqlite")
    (tmp_path / "soon").rename(tmp_path / "later")
    wait_until(lambda: state(database) == "online")
    registration.stop()
    database.close()


def test_stopping_without_a_database_is_no_error(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'nowhere' / 'ampcore.sqlite'}")
    registration = registration_in(database)
    registration.start()
    registration.stop()
    database.close()

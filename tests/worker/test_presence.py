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
from worker.presence import Presence

ID = "w0"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.presence.EVERY_S", 0.02)


def presence_in(database: Database, **parts: Any) -> Presence:
    given: dict[str, Any] = {
        "slots": 2,
        "queues": ("default", "cpu"),
        "hardware": lambda: None,
        "usage": lambda: {"busy": 1},
    }
    return Presence(database, ID, **{**given, **parts})


@pytest.fixture
def presence(database: Database) -> Iterator[Presence]:
    presence = presence_in(database)
    presence.start()
    yield presence
    presence.end()


def found(database: Database) -> tuple[Worker, str] | None:
    with database.read() as session:
        return workers.get(session, ID)


def state(database: Database) -> str | None:
    there = found(database)
    return there[1] if there is not None else None


def test_a_worker_says_hello_and_good_bye(
    database: Database, wait_until: Callable[..., Any]
) -> None:
    presence = presence_in(database)
    presence.start()
    wait_until(lambda: state(database) == "online")
    presence.end()
    assert state(database) == "stopped"


def test_it_tells_what_it_serves_and_what_it_measures(
    database: Database, presence: Presence, wait_until: Callable[..., Any]
) -> None:
    wait_until(lambda: state(database) == "online")
    there = found(database)
    assert there is not None
    assert (there[0].queues, there[0].slots, there[0].usage) == (["default", "cpu"], 2, {"busy": 1})


def test_a_worker_that_was_forgotten_says_hello_again(
    database: Database, presence: Presence, wait_until: Callable[..., Any]
) -> None:
    wait_until(lambda: state(database) == "online")
    with database.write() as session:
        session.execute(delete(Worker))
    wait_until(lambda: state(database) == "online")


def test_whoever_is_asked_to_drain_does_so_once(
    database: Database, wait_until: Callable[..., Any]
) -> None:
    drained: list[bool] = []
    looks: list[bool] = []

    def usage() -> dict[str, Any]:
        looks.append(bool(drained))
        return {}

    presence = presence_in(database, drain=lambda: drained.append(True), usage=usage)
    presence.start()
    wait_until(lambda: state(database) == "online")
    with database.write() as session:
        workers.request_drain(session, ID)
    wait_until(lambda: looks.count(True) > 2)
    presence.end()
    assert drained == [True]


def test_to_drain_is_to_get_sigterm(
    database: Database, wait_until: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("worker.presence.os.kill", lambda *what: sent.append(what))
    monkeypatch.setattr("worker.presence.os.getpid", lambda: 4711)
    presence = presence_in(database)
    presence.start()
    wait_until(lambda: state(database) == "online")
    with database.write() as session:
        workers.request_drain(session, ID)
    wait_until(lambda: sent == [(4711, signal.SIGTERM)])
    presence.end()


def test_a_measure_that_fails_does_not_make_a_worker_lost(
    database: Database, wait_until: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([ValueError("what is this GPU?")])

    def usage() -> dict[str, Any]:
        if (error := next(answers, None)) is not None:
            raise error
        return {}

    presence = presence_in(database, usage=usage)
    presence.start()
    wait_until(lambda: state(database) == "online")
    presence.end()
    assert "what is this GPU?" in caplog.text


def test_a_worker_that_starts_before_its_database_says_hello_later(
    migrated_sqlite: Path,
    tmp_path: Path,
    wait_until: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    database = Database(f"sqlite:///{tmp_path / 'later' / 'ampcore.sqlite'}")
    presence = presence_in(database)
    presence.start()
    wait_until(lambda: "no sign of life" in caplog.text)
    (tmp_path / "soon").mkdir()
    shutil.copy(migrated_sqlite, tmp_path / "soon" / "ampcore.sqlite")
    (tmp_path / "soon").rename(tmp_path / "later")
    wait_until(lambda: state(database) == "online")
    presence.end()
    database.close()


def test_a_good_bye_that_nobody_hears_is_no_error(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'nowhere' / 'ampcore.sqlite'}")
    presence = presence_in(database)
    presence.start()
    presence.end()
    database.close()

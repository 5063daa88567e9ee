"""`ampserver up` says once that custom code is off, why, and what mends it."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update

from server.embedded.sandbox_notice import SandboxNotice
from store import workers
from store.clock import from_now
from store.database import Database
from store.tables import Worker
from tests.waiting import wait_until

MISSING = "The sandbox bubblewrap is not available: the program bwrap is not installed."


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone, which `ampserver up` uses."""
    return sqlite_url


@pytest.fixture
def notices(database: Database) -> Callable[[dict[str, Any]], list[str]]:
    """What is written when a worker reports its hardware after its registration."""

    def report(hardware: dict[str, Any]) -> list[str]:
        written: list[str] = []
        notice = SandboxNotice(database, lambda: 2, written.append)
        with database.write() as session:
            facts: dict[str, Any] = {"hostname": "h", "slots": 1, "version": "1"}
            for pid in (1, 2):  # the first is of a server that was killed
                workers.register(session, f"w{pid}", pid=pid, queues=["default"], **facts)
            workers.heartbeat(session, "w1", hardware={"sandbox": {"kind": None, "missing": ["x"]}})
            # The newest workers are listed first.
            session.execute(update(Worker).where(Worker.pid == 1).values(started_at=from_now(60)))
        notice.start()
        with database.write() as session:
            workers.heartbeat(session, "w2", hardware=hardware)
        wait_until(lambda: not notice.is_waiting, "the report is read")
        notice.stop()
        return written

    return report


def test_without_a_sandbox_the_reason_and_the_remedy_are_written_once(
    notices: Callable[[dict[str, Any]], list[str]],
) -> None:
    [text] = notices({"sandbox": {"kind": None, "missing": [MISSING]}})
    assert text.startswith("Custom code is off")
    assert MISSING in text
    assert "apt install bubblewrap" in text


def test_a_sandbox_that_fails_is_not_to_be_installed(
    notices: Callable[[dict[str, Any]], list[str]],
) -> None:
    reason = "The sandbox bubblewrap is not available: no permission."
    [text] = notices({"sandbox": {"kind": None, "missing": [reason]}})
    assert "apt install" not in text
    assert text.endswith("docs/guides/operating.md says what sandboxes need.")


def test_a_setting_that_turns_it_off_is_named_as_the_remedy(
    notices: Callable[[dict[str, Any]], list[str]],
) -> None:
    [text] = notices({"sandbox": {"kind": None, "missing": ["AMPCORE_BUNDLE_SANDBOX is off."]}})
    assert "remove that setting" in text
    assert "apt install" not in text


def test_with_a_sandbox_nothing_is_written(
    notices: Callable[[dict[str, Any]], list[str]],
) -> None:
    assert notices({"sandbox": {"kind": "bubblewrap", "missing": []}}) == []


def test_a_server_that_stops_before_the_report_does_not_wait_for_it(database: Database) -> None:
    written: list[str] = []
    notice = SandboxNotice(database, lambda: 1, written.append)
    notice.start()
    notice.stop()
    assert not notice.is_waiting
    assert written == []

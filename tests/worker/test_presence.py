import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store import workers
from store.database import Database
from worker.presence import Presence
from worker.standby import Standby


def states(database: Database) -> list[str]:
    with database.read() as session:
        return [state for _, state in workers.listing(session)]


def test_a_worker_says_hello_and_good_bye(
    database: Database, tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    presence = Presence(database, slots=2)
    presence.start(Standby(tmp_path))
    wait_until(lambda: states(database) == ["online"])
    presence.end()
    assert states(database) == ["stopped"]


def test_a_worker_that_starts_before_its_database_says_hello_later(
    migrated_sqlite: Path,
    tmp_path: Path,
    wait_until: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    database = Database(f"sqlite:///{tmp_path / 'later' / 'ampcore.sqlite'}")
    presence = Presence(database, slots=1)
    presence.start(Standby(tmp_path))
    wait_until(lambda: "no sign of life" in caplog.text)
    (tmp_path / "soon").mkdir()
    shutil.copy(migrated_sqlite, tmp_path / "soon" / "ampcore.sqlite")
    (tmp_path / "soon").rename(tmp_path / "later")
    wait_until(lambda: states(database) == ["online"])
    presence.end()
    database.close()

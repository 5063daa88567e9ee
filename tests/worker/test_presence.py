from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    sqlite_url: str, tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    file, aside = tmp_path / "ampcore.sqlite", tmp_path / "aside"
    file.rename(aside)
    database = Database(sqlite_url)
    presence = Presence(database, slots=1)
    presence.start(Standby(tmp_path))
    wait_until(file.exists)  # SQLite has made an empty file, and found no tables in it
    database.close()
    aside.rename(file)
    wait_until(lambda: states(database) == ["online"])
    presence.end()
    database.close()

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ampcore.series import Event
from ampcore.spec import State
from service.storage import Storage, StorageFailed
from store import artifacts
from store.artifacts import CHECKPOINT, Stored
from store.database import Database
from worker import resumption
from worker.patience import Lease, PatientWrites


class Recorded:
    """A job with checkpoints in a storage, and an attempt that looks for them."""

    def __init__(self, database: Database, job: Any, folder: Path) -> None:
        self.database, self.job, self.folder = database, job, folder
        self.storage = Storage((folder / "artifacts").as_uri())
        self.warnings: list[Event] = []
        (folder / "output").mkdir()

    def keep(self, step: int) -> Path:
        """Store a checkpoint and write it down; returns the stored file."""
        file = self.folder / "made"
        file.write_text(f"state {step}")
        path = f"attempt-1/checkpoints/checkpoint-{step:06}-step-{step}.safetensors"
        size_bytes, sha256 = self.storage.put(self.job.id, path, file)
        with self.database.write() as session:
            stored = Stored(path, CHECKPOINT, step, size_bytes, sha256)
            artifacts.add(session, self.job.id, self.job.attempt, stored)
        file.unlink()
        return self.folder / "artifacts" / self.job.id / path

    def fetch(self) -> bool:
        writes = PatientWrites(self.database, threading.Event())
        lease = Lease(self.job.id, self.job.attempt, 30.0)
        folder = self.folder / "output"
        return resumption.fetch_newest(self.storage, writes, lease, folder, self.warnings.append)

    def fetched(self) -> list[str]:
        return [file.read_text() for file in (self.folder / "output").rglob("*.safetensors")]

    def codes(self) -> list[str]:
        return [event.data["code"] for event in self.warnings]


@pytest.fixture
def recorded(database: Database, make_job: Callable[..., Any], tmp_path: Path) -> Recorded:
    return Recorded(database, make_job(State.STARTING), tmp_path)


def test_a_first_attempt_has_nothing_to_go_on_from(recorded: Recorded) -> None:
    assert not recorded.fetch()
    assert recorded.warnings == []


def test_the_newest_is_brought_under_the_name_that_the_trainer_knows(recorded: Recorded) -> None:
    recorded.keep(5)
    recorded.keep(9)
    assert recorded.fetch()
    folder = recorded.folder / "output" / "checkpoints"
    assert [file.name for file in folder.iterdir()] == ["checkpoint-000009-step-9.safetensors"]
    assert recorded.fetched() == ["state 9"]


@pytest.mark.parametrize("harm", [Path.unlink, lambda file: file.write_text("state X")])
def test_what_is_damaged_or_gone_is_passed_over(
    recorded: Recorded, harm: Callable[[Path], Any]
) -> None:
    recorded.keep(5)
    harm(recorded.keep(9))
    assert recorded.fetch()
    assert recorded.fetched() == ["state 5"]
    assert recorded.codes() == ["checkpoint_unusable"]


def test_where_none_can_be_used_it_begins_again_and_says_so(recorded: Recorded) -> None:
    for step in (5, 9):
        recorded.keep(step).unlink()
    assert not recorded.fetch()
    assert recorded.codes() == ["checkpoint_unusable", "checkpoint_unusable", "begun_again"]


def test_a_storage_that_is_away_is_no_reason_to_begin_again(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumption, "WAITS_S", (0.0, 0.0))
    tries: list[str] = []

    def away(job_id: str, path: str, *_: Any) -> None:
        tries.append(path)
        raise StorageFailed("It does not answer.")

    recorded.keep(5)
    monkeypatch.setattr(recorded.storage, "fetch", away)
    with pytest.raises(StorageFailed):
        recorded.fetch()
    assert len(tries) == 3

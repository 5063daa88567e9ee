import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ampspec.jobs import State
from ampspec.telemetry import Event
from infra.storage import Storage, StorageFailed
from store.database import Database
from store.files import artifacts
from store.files.artifacts import CHECKPOINT, StoredArtifact
from worker.database_retry import Lease, RetryingDatabase
from worker.transfer import checkpoint_download, storage_retry


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: nothing here depends on the database."""
    return sqlite_url


class JobWithCheckpoints:
    """A job with checkpoints in a storage, and an attempt that downloads them."""

    def __init__(self, database: Database, job: Any, folder: Path) -> None:
        self.database, self.job, self.folder = database, job, folder
        self.storage = Storage((folder / "artifacts").as_uri())
        self.warnings: list[Event] = []
        (folder / "output").mkdir()

    def store(self, step: int) -> Path:
        """Store and record a checkpoint; returns the stored file."""
        file = self.folder / "made"
        file.write_text(f"state {step}")
        path = f"attempt-1/checkpoints/checkpoint-{step:06}-step-{step}.safetensors"
        size_bytes, sha256 = self.storage.put(self.job.id, path, file)
        with self.database.write() as session:
            stored = StoredArtifact(path, CHECKPOINT, step, size_bytes, sha256)
            artifacts.add(session, self.job.id, self.job.attempt, stored)
        file.unlink()
        return self.folder / "artifacts" / self.job.id / path

    def fetch(self, extends: str | None = None) -> bool:
        retrying_database = RetryingDatabase(self.database, threading.Event())
        lease = Lease(self.job.id, self.job.attempt, 30.0)
        folder = self.folder / "output"
        return checkpoint_download.fetch_latest_checkpoint(
            self.storage,
            retrying_database,
            lease,
            folder,
            self.warnings.append,
            extends=extends,
        )

    def fetched(self) -> list[str]:
        return [file.read_text() for file in (self.folder / "output").rglob("*.safetensors")]

    def codes(self) -> list[str]:
        return [event.data["code"] for event in self.warnings]


@pytest.fixture
def job_with_checkpoints(
    database: Database, make_job: Callable[..., Any], tmp_path: Path
) -> JobWithCheckpoints:
    return JobWithCheckpoints(database, make_job(State.STARTING), tmp_path)


def test_a_job_without_checkpoints_downloads_nothing(
    job_with_checkpoints: JobWithCheckpoints,
) -> None:
    assert not job_with_checkpoints.fetch()
    assert job_with_checkpoints.warnings == []


def test_the_newest_checkpoint_keeps_its_name(
    job_with_checkpoints: JobWithCheckpoints,
) -> None:
    job_with_checkpoints.store(5)
    job_with_checkpoints.store(9)
    assert job_with_checkpoints.fetch()
    folder = job_with_checkpoints.folder / "output" / "checkpoints"
    assert [file.name for file in folder.iterdir()] == ["checkpoint-000009-step-9.safetensors"]
    assert job_with_checkpoints.fetched() == ["state 9"]


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_text("state X")])
def test_a_damaged_or_missing_checkpoint_is_skipped(
    job_with_checkpoints: JobWithCheckpoints, damage: Callable[[Path], Any]
) -> None:
    job_with_checkpoints.store(5)
    damage(job_with_checkpoints.store(9))
    assert job_with_checkpoints.fetch()
    assert job_with_checkpoints.fetched() == ["state 5"]
    assert job_with_checkpoints.codes() == ["checkpoint_unusable"]


def test_without_a_usable_checkpoint_training_restarts_with_a_warning(
    job_with_checkpoints: JobWithCheckpoints,
) -> None:
    for step in (5, 9):
        job_with_checkpoints.store(step).unlink()
    assert not job_with_checkpoints.fetch()
    assert job_with_checkpoints.codes() == [
        "checkpoint_unusable",
        "checkpoint_unusable",
        "restarted_at_step_0",
    ]


def test_an_unreachable_storage_does_not_restart_training(
    job_with_checkpoints: JobWithCheckpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_retry, "RETRY_DELAYS_S", (0.0, 0.0))
    tries: list[str] = []

    def fail(job_id: str, path: str, *_: Any) -> None:
        tries.append(path)
        raise StorageFailed("It does not answer.")

    job_with_checkpoints.store(5)
    monkeypatch.setattr(job_with_checkpoints.storage, "fetch", fail)
    with pytest.raises(StorageFailed):
        job_with_checkpoints.fetch()
    assert len(tries) == 3


@pytest.fixture
def extended(
    database: Database,
    make_job: Callable[..., Any],
    job_with_checkpoints: JobWithCheckpoints,
    tmp_path: Path,
) -> JobWithCheckpoints:
    """Another job with a checkpoint after 7 steps, in the same storage."""
    (tmp_path / "output").rename(tmp_path / "first_output")
    extended = JobWithCheckpoints(database, make_job(State.STARTING), tmp_path)
    extended.store(7)
    return extended


def test_an_extension_starts_from_the_checkpoint_of_the_other_job(
    job_with_checkpoints: JobWithCheckpoints, extended: JobWithCheckpoints
) -> None:
    assert job_with_checkpoints.fetch(extends=extended.job.id)
    assert job_with_checkpoints.fetched() == ["state 7"]


def test_an_extension_resumes_from_its_own_checkpoint(
    job_with_checkpoints: JobWithCheckpoints, extended: JobWithCheckpoints
) -> None:
    checkpoint = job_with_checkpoints.store(9)
    assert job_with_checkpoints.fetch(extends=extended.job.id)
    assert job_with_checkpoints.fetched() == ["state 9"]
    checkpoint.unlink()
    for file in (job_with_checkpoints.folder / "output").rglob("*.safetensors"):
        file.unlink()
    assert job_with_checkpoints.fetch(extends=extended.job.id)
    assert job_with_checkpoints.fetched() == ["state 7"]
    assert job_with_checkpoints.codes() == ["checkpoint_unusable"]


def test_an_extension_never_starts_at_step_0(
    job_with_checkpoints: JobWithCheckpoints, extended: JobWithCheckpoints
) -> None:
    extended.store(11).unlink()
    (extended.folder / "artifacts" / extended.job.id).rename(extended.folder / "elsewhere")
    with pytest.raises(checkpoint_download.ExtendedCheckpointMissing, match=extended.job.id):
        job_with_checkpoints.fetch(extends=extended.job.id)

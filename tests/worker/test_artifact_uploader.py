"""Uploads to a storage that may be slow, broken or unreachable."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from ampspec.jobs import Reason, State
from ampspec.telemetry import Event, EventType
from infra.storage import Storage, StorageFailed
from server.file_removal import remove_due_files
from store.access import projects
from store.clock import from_now
from store.database import Database
from store.files import artifacts, file_removals
from store.files.artifacts import CHECKPOINT, StoredArtifact
from store.tables import FileRemoval, Job
from tests.waiting import DEADLINE_S
from worker.database_retry import Lease, RetryingDatabase, WriteAbandoned
from worker.transfer.artifact_uploader import ArtifactUploader


class Unreliable(Storage):
    """A storage that refuses the next `refuses` files, or blocks until `unblocked` is set."""

    refuses = 0
    tries = 0

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.unblocked = threading.Event()
        self.unblocked.set()

    def put(self, job_id: str, path: str, file: Path, **options: Any) -> tuple[int, str]:
        self.tries += 1
        self.unblocked.wait(DEADLINE_S)
        if self.refuses:
            self.refuses -= 1
            raise StorageFailed("It is full.")
        return super().put(job_id, path, file, **options)


@pytest.fixture
def storage(tmp_path: Path) -> Unreliable:
    return Unreliable((tmp_path / "artifacts").as_uri())


@pytest.fixture
def job(make_job: Callable[..., Any]) -> Any:
    return make_job(State.RUNNING)


@pytest.fixture
def warnings() -> list[Event]:
    return []


@pytest.fixture
def uploader(
    storage: Unreliable, database: Database, job: Any, tmp_path: Path, warnings: list[Event]
) -> Iterator[ArtifactUploader]:
    (tmp_path / "scratch" / "checkpoints").mkdir(parents=True)
    attempt_ended = threading.Event()
    uploader = ArtifactUploader(
        storage,
        RetryingDatabase(database, attempt_ended),
        Lease(job.id, job.attempt, 30.0),
        tmp_path / "scratch",
        warnings.append,
        initial_backoff_s=0.01,
    )
    uploader.start()
    yield uploader
    attempt_ended.set()
    storage.unblocked.set()
    uploader.abandon_pending()


def save_checkpoint(uploader: ArtifactUploader, number: int) -> None:
    """Save a checkpoint as the trainer does, and report its committed event."""
    name = f"checkpoints/checkpoint-{number:06}-step-{number}.safetensors"
    (uploader.folder / name).write_text(f"state {number}")
    uploader.on_event(Event(EventType.CHECKPOINT_SAVED, number - 1, {"file": name}))


def kept(database: Database, job: Any) -> list[int | None]:
    with database.read() as session:
        return [row.step for row in artifacts.listing(session, job.id)]


def stored_files(tmp_path: Path) -> list[str]:
    return sorted(file.name for file in (tmp_path / "artifacts").rglob("*.*"))


def test_a_quota_refuses_what_takes_more_and_keeps_what_is_stored(
    uploader: ArtifactUploader, database: Database, job: Any, warnings: list[Event]
) -> None:
    """Checkpoints that replace outdated ones go on; what exceeds it costs one warning."""
    with database.write() as session:
        projects.update(session, job.project, {"max_artifact_bytes": 2 * len("state 1")})
    for number in (1, 2, 3):
        save_checkpoint(uploader, number)
        assert uploader.wait_until_empty(DEADLINE_S)
    assert (kept(database, job), warnings) == ([2, 3], [])
    for number in (10, 20):  # one byte more
        save_checkpoint(uploader, number)
        assert uploader.wait_until_empty(DEADLINE_S)
    assert kept(database, job) == [2, 3]
    [warning] = warnings
    assert warning.data["code"] == "artifact_failed"
    assert "quota of 14 bytes" in warning.data["message"]
    assert [missing.reason for missing in uploader.missing] == [Reason.RESOURCE_LIMIT]
    save_checkpoint(uploader, 4)
    assert uploader.wait_until_empty(DEADLINE_S)
    assert (kept(database, job), uploader.missing) == ([3, 4], [])


def test_the_validation_examples_of_a_model_are_uploaded(
    uploader: ArtifactUploader, database: Database, job: Any
) -> None:
    names = {"file": "model.keras", "examples": "validation_examples.npy"}
    for name in names.values():
        (uploader.folder / name).write_text(name)
    uploader.on_event(Event(EventType.MODEL_SAVED, 9, names))
    assert uploader.wait_until_empty(DEADLINE_S)
    with database.read() as session:
        file = artifacts.of_kind(session, job.id, artifacts.EXAMPLES)
    assert file is not None
    assert (file.path, file.step) == ("attempt-1/validation_examples.npy", 10)


def test_models_in_other_formats_are_stored_with_their_report(
    uploader: ArtifactUploader, database: Database, job: Any
) -> None:
    exports = ["model.onnx", "model.exports.json"]
    for name in ("model.keras", *exports):
        (uploader.folder / name).write_text(name)
    uploader.on_event(Event(EventType.MODEL_SAVED, 9, {"file": "model.keras", "exports": exports}))
    assert uploader.wait_until_empty(DEADLINE_S)
    with database.read() as session:
        rows = artifacts.listing(session, job.id)
    assert [row.path for row in rows if row.kind == artifacts.EXPORT] == [
        f"attempt-1/{name}" for name in exports
    ]


def test_a_file_that_two_events_name_is_stored_once(
    uploader: ArtifactUploader, warnings: list[Event]
) -> None:
    """The models of a GAN have one signature."""
    for model in ("generator.keras", "discriminator.keras"):
        (uploader.folder / model).write_text(model)
    (uploader.folder / "signature.json").write_text("{}")
    for model in ("generator.keras", "discriminator.keras"):
        names = {"file": model, "signature": "signature.json"}
        uploader.on_event(Event(EventType.MODEL_SAVED, 9, names))
    assert uploader.wait_until_empty(DEADLINE_S)
    assert (uploader.not_stored, warnings) == ([], [])


def test_a_checkpoint_is_uploaded_recorded_and_removed_from_scratch(
    uploader: ArtifactUploader, database: Database, job: Any, tmp_path: Path
) -> None:
    save_checkpoint(uploader, 5)
    assert uploader.wait_until_empty(DEADLINE_S)
    with database.read() as session:
        (row,) = artifacts.checkpoints(session, job.id)
    assert row.path == "attempt-1/checkpoints/checkpoint-000005-step-5.safetensors"
    assert (row.step, row.size_bytes) == (5, len("state 5"))
    assert (tmp_path / "artifacts" / job.id / row.path).read_text() == "state 5"
    assert list((uploader.folder / "checkpoints").iterdir()) == []


def test_files_enqueued_during_uploads_are_not_lost(
    uploader: ArtifactUploader, storage: Unreliable, warnings: list[Event]
) -> None:
    storage.unblocked.clear()
    save_checkpoint(uploader, 0)
    for number in range(1, 2_000):
        save_checkpoint(uploader, number)
    storage.unblocked.set()  # each queued file is compared with those after it
    for number in range(2_000, 4_000):
        save_checkpoint(uploader, number)
    assert uploader.wait_until_empty(DEADLINE_S)
    assert warnings == []


@pytest.mark.parametrize("place", ["the file", "its folder"])
def test_a_symbolic_link_is_not_uploaded(
    place: str, uploader: ArtifactUploader, tmp_path: Path, warnings: list[Event]
) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "token").write_text("amp_secret")
    (uploader.folder / "checkpoints" / "token").symlink_to(secrets / "token")
    (uploader.folder / "linked").symlink_to(secrets)
    file = "checkpoints/token" if place == "the file" else "linked/token"
    uploader.on_event(Event(EventType.CHECKPOINT_SAVED, 0, {"file": file}))
    assert uploader.wait_until_empty(20)
    (warning,) = warnings
    assert warning.data["code"] == "artifact_failed"
    assert warning.data["message"].startswith(f"{file} was not uploaded: {file} is not ")
    assert stored_files(tmp_path) == []
    assert (secrets / "token").exists()


@pytest.mark.parametrize("file", ["../secret", "/etc/passwd", "checkpoints/../../secret", ""])
def test_a_path_outside_the_folder_is_not_uploaded(
    file: str, uploader: ArtifactUploader, tmp_path: Path, warnings: list[Event]
) -> None:
    (tmp_path / "secret").write_text("amp_secret")
    uploader.on_event(Event(EventType.MODEL_SAVED, 0, {"file": file}))
    assert uploader.wait_until_empty(20)
    assert [warning.data["code"] for warning in warnings] == ["artifact_failed"]
    assert stored_files(tmp_path) == []


@pytest.mark.needs("root")
def test_a_file_of_another_user_is_copied_with_the_workers_owner(
    uploader: ArtifactUploader, tmp_path: Path, job: Any
) -> None:
    file = uploader.folder / "model.keras"
    file.write_text("weights")
    os.chown(file, 60_800, 60_800)
    with file.open("a") as still_open:
        uploader.on_event(Event(EventType.MODEL_SAVED, 0, {"file": "model.keras"}))
        assert uploader.wait_until_empty(20)
        still_open.write(" changed later")
    stored = tmp_path / "artifacts" / job.id / "attempt-1" / "model.keras"
    assert (stored.read_text(), stored.stat().st_uid) == ("weights", 0)


def test_events_without_a_file_upload_nothing(uploader: ArtifactUploader) -> None:
    uploader.on_event(Event(EventType.EVALUATION, 3, {"val_loss": 1.0}))
    assert uploader.wait_until_empty(0)


def test_the_two_newest_checkpoints_of_all_attempts_are_kept(
    uploader: ArtifactUploader, database: Database, job: Any, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        save_checkpoint(uploader, number)
        assert uploader.wait_until_empty(DEADLINE_S)
    assert kept(database, job) == [2, 3]
    assert [name.split("-")[-1] for name in stored_files(tmp_path)] == [
        "2.safetensors",
        "3.safetensors",
    ]


def test_failed_uploads_are_retried_with_one_warning(
    uploader: ArtifactUploader,
    storage: Unreliable,
    database: Database,
    job: Any,
    warnings: list[Event],
) -> None:
    storage.refuses = 5
    save_checkpoint(uploader, 1)
    assert uploader.wait_until_empty(DEADLINE_S)
    assert kept(database, job) == [1]
    (warning,) = warnings
    assert warning.data["code"] == "artifact_failed"
    assert "It is full." in warning.data["message"]


def test_a_single_failed_upload_gives_no_warning(
    uploader: ArtifactUploader, storage: Unreliable, warnings: list[Event]
) -> None:
    storage.refuses = 1
    save_checkpoint(uploader, 1)
    assert uploader.wait_until_empty(DEADLINE_S)
    assert warnings == []


def test_only_the_newest_pending_checkpoint_is_uploaded(
    uploader: ArtifactUploader,
    storage: Unreliable,
    database: Database,
    job: Any,
    wait_until: Callable[..., Any],
) -> None:
    storage.unblocked.clear()
    save_checkpoint(uploader, 1)
    wait_until(lambda: storage.tries == 1)
    for number in (2, 3, 4):
        save_checkpoint(uploader, number)
    storage.unblocked.set()
    assert uploader.wait_until_empty(DEADLINE_S)
    assert kept(database, job) == [1, 4]


def test_a_checkpoint_removed_by_the_trainer_is_skipped(
    uploader: ArtifactUploader,
    storage: Unreliable,
    database: Database,
    job: Any,
    warnings: list[Event],
) -> None:
    name = "checkpoints/checkpoint-000001-step-1.safetensors"
    uploader.on_event(Event(EventType.CHECKPOINT_SAVED, 0, {"file": name}))
    assert uploader.wait_until_empty(DEADLINE_S)
    assert (storage.tries, warnings, kept(database, job)) == (1, [], [])


def test_abandoned_uploads_give_warnings(
    uploader: ArtifactUploader,
    storage: Unreliable,
    warnings: list[Event],
    wait_until: Callable[..., Any],
) -> None:
    storage.refuses = 10**6
    save_checkpoint(uploader, 1)
    wait_until(lambda: storage.tries > 0)
    assert not uploader.wait_until_empty(0.05)
    uploader.abandon_pending()
    assert uploader.wait_until_empty(DEADLINE_S)
    assert "checkpoint-000001" in warnings[-1].data["message"]


def removals(database: Database) -> list[str | None]:
    with database.read() as session:
        return [row.path for row in session.scalars(select(FileRemoval))]


def test_checkpoints_that_cannot_be_deleted_are_deleted_later(
    uploader: ArtifactUploader,
    storage: Unreliable,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker may die between commit and deletion, or the storage may be unreachable."""

    def fail(*_: object) -> None:
        raise StorageFailed("unreachable")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "remove", fail)
        for number in (1, 2, 3):
            save_checkpoint(uploader, number)
            assert uploader.wait_until_empty(DEADLINE_S)
    old = "checkpoint-000001-step-1.safetensors"
    assert removals(database) == [f"attempt-1/checkpoints/{old}"]
    assert old in stored_files(tmp_path)
    save_checkpoint(uploader, 4)
    assert uploader.wait_until_empty(DEADLINE_S)
    assert len(removals(database)) == 1  # files that were deleted at once have no row
    with database.write() as session:
        session.execute(update(FileRemoval).values(due_at=from_now(-1)))
    remove_due_files(database, storage)
    assert old not in stored_files(tmp_path)
    assert len(stored_files(tmp_path)) == 2
    assert removals(database) == []


def test_a_file_whose_worker_died_before_the_commit_is_deleted_later(
    *,
    uploader: ArtifactUploader,
    storage: Unreliable,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wait_until: Callable[..., Any],
) -> None:
    died = threading.Event()

    def die(*_: object) -> None:
        died.set()
        raise WriteAbandoned

    monkeypatch.setattr(uploader, "_record", die)
    storage.refuses = 2  # each try schedules nothing more
    save_checkpoint(uploader, 1)
    wait_until(died.is_set)
    name = "checkpoint-000001-step-1.safetensors"
    assert stored_files(tmp_path) == [name]
    assert removals(database) == [f"attempt-1/checkpoints/{name}"]
    with database.write() as session:
        session.execute(update(FileRemoval).values(due_at=from_now(-1)))
    remove_due_files(database, storage)
    assert (stored_files(tmp_path), removals(database)) == ([], [])


def test_a_file_with_a_row_is_not_deleted(
    uploader: ArtifactUploader, storage: Unreliable, database: Database, job: Any, tmp_path: Path
) -> None:
    save_checkpoint(uploader, 1)
    assert uploader.wait_until_empty(DEADLINE_S)
    with database.write() as session:
        [row] = artifacts.checkpoints(session, job.id)
        file_removals.schedule(session, job.id, [row.path])
        session.execute(update(FileRemoval).values(due_at=from_now(-1)))
    remove_due_files(database, storage)
    assert len(stored_files(tmp_path)) == 1
    assert removals(database) == []


def test_a_file_of_a_fenced_attempt_is_not_recorded(
    uploader: ArtifactUploader, database: Database, job: Any, tmp_path: Path
) -> None:
    with database.write() as session:
        session.execute(update(Job).values(attempt=2))
    save_checkpoint(uploader, 1)
    assert uploader.wait_until_empty(DEADLINE_S)
    assert kept(database, job) == []
    assert stored_files(tmp_path) == []


def test_a_recorded_file_stays_when_the_commit_was_not_confirmed(
    uploader: ArtifactUploader, database: Database, job: Any, tmp_path: Path
) -> None:
    """The commit's response was lost, and at the retry another attempt owns the job."""
    name = "attempt-1/checkpoints/checkpoint-000001-step-1.safetensors"
    with database.write() as session:
        artifacts.add(session, job.id, 1, StoredArtifact(name, CHECKPOINT, 1, 7, "0" * 64))
        session.execute(update(Job).values(attempt=2))
    save_checkpoint(uploader, 1)
    assert uploader.wait_until_empty(DEADLINE_S)
    assert kept(database, job) == [1]
    assert stored_files(tmp_path) == [Path(name).name]


def test_a_path_outside_the_folder_does_not_stop_later_uploads(
    uploader: ArtifactUploader, tmp_path: Path, warnings: list[Event], database: Database, job: Any
) -> None:
    (tmp_path / "secret").write_text("a secret")
    uploader.on_event(Event(EventType.MODEL_SAVED, 0, {"file": "../secret"}))
    save_checkpoint(uploader, 1)
    assert uploader.wait_until_empty(DEADLINE_S)
    assert kept(database, job) == [1]
    assert (tmp_path / "secret").exists()
    assert warnings[0].data["code"] == "artifact_failed"

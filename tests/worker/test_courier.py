"""Files on their way into a storage that may be slow, broken, or away."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from ampcore.series import Event, EventType
from ampcore.spec import State
from server.jobs.files import remove_due_files
from service.storage import Storage, StorageFailed
from store import artifacts, file_removals
from store.artifacts import CHECKPOINT, Stored
from store.clock import after
from store.database import Database
from store.tables import FileRemoval, Job
from tests.waiting import DEADLINE_S
from worker.courier import Courier
from worker.patience import Lease, PatientWrites


class Unreliable(Storage):
    """A storage whose next files are refused, or that does not answer for a while."""

    refuses = 0
    tries = 0

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.answers = threading.Event()
        self.answers.set()

    def put(self, job_id: str, path: str, file: Path) -> tuple[int, str]:
        self.tries += 1
        self.answers.wait(DEADLINE_S)
        if self.refuses:
            self.refuses -= 1
            raise StorageFailed("It is full.")
        return super().put(job_id, path, file)


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
def courier(
    storage: Unreliable, database: Database, job: Any, tmp_path: Path, warnings: list[Event]
) -> Iterator[Courier]:
    (tmp_path / "scratch" / "checkpoints").mkdir(parents=True)
    over = threading.Event()
    courier = Courier(
        storage,
        PatientWrites(database, over),
        Lease(job.id, job.attempt, 30.0),
        tmp_path / "scratch",
        warnings.append,
        first_wait_s=0.01,
    )
    courier.start()
    yield courier
    over.set()
    storage.answers.set()
    courier.give_up()


def saved(courier: Courier, number: int) -> None:
    """The trainer has saved a checkpoint, and its event is committed."""
    name = f"checkpoints/checkpoint-{number:06}-step-{number}.safetensors"
    (courier.folder / name).write_text(f"state {number}")
    courier.note(Event(EventType.CHECKPOINT_SAVED, number - 1, {"file": name}))


def kept(database: Database, job: Any) -> list[int | None]:
    with database.read() as session:
        return [row.step for row in artifacts.listing(session, job.id)]


def stored_files(tmp_path: Path) -> list[str]:
    return sorted(file.name for file in (tmp_path / "artifacts").rglob("*.*"))


def test_a_checkpoint_is_published_written_down_and_gone_from_scratch(
    courier: Courier, database: Database, job: Any, tmp_path: Path
) -> None:
    saved(courier, 5)
    assert courier.drained(DEADLINE_S)
    with database.read() as session:
        (row,) = artifacts.checkpoints(session, job.id)
    assert row.path == "attempt-1/checkpoints/checkpoint-000005-step-5.safetensors"
    assert (row.step, row.size_bytes) == (4, len("state 5"))
    assert (tmp_path / "artifacts" / job.id / row.path).read_text() == "state 5"
    assert list((courier.folder / "checkpoints").iterdir()) == []


def test_files_that_come_while_others_are_looked_through_are_not_lost(
    courier: Courier, storage: Unreliable, warnings: list[Event]
) -> None:
    storage.answers.clear()
    saved(courier, 0)
    for number in range(1, 2_000):
        saved(courier, number)
    storage.answers.set()  # each of those that wait is compared with those behind it
    for number in range(2_000, 4_000):
        saved(courier, number)
    assert courier.drained(DEADLINE_S)
    assert warnings == []


@pytest.mark.parametrize("place", ["the file", "its folder"])
def test_a_link_that_a_trainer_made_brings_nothing_out(
    place: str, courier: Courier, tmp_path: Path, warnings: list[Event]
) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "token").write_text("amp_secret")
    (courier.folder / "checkpoints" / "token").symlink_to(secrets / "token")
    (courier.folder / "linked").symlink_to(secrets)
    file = "checkpoints/token" if place == "the file" else "linked/token"
    courier.note(Event(EventType.CHECKPOINT_SAVED, 0, {"file": file}))
    assert courier.drained(20)
    (warning,) = warnings
    assert warning.data["code"] == "artifact_failed"
    assert warning.data["message"].startswith(f"{file} is not in the storage: {file} is no file")
    assert stored_files(tmp_path) == []
    assert (secrets / "token").exists()


@pytest.mark.parametrize("file", ["../secret", "/etc/passwd", "checkpoints/../../secret", ""])
def test_a_path_that_leads_out_of_the_folder_brings_nothing_out(
    file: str, courier: Courier, tmp_path: Path, warnings: list[Event]
) -> None:
    (tmp_path / "secret").write_text("amp_secret")
    courier.note(Event(EventType.MODEL_SAVED, 0, {"file": file}))
    assert courier.drained(20)
    assert [warning.data["code"] for warning in warnings] == ["artifact_failed"]
    assert stored_files(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have files of another user")
def test_a_file_of_another_user_is_copied_and_then_ours(
    courier: Courier, tmp_path: Path, job: Any
) -> None:
    file = courier.folder / "model.keras"
    file.write_text("weights")
    os.chown(file, 60_800, 60_800)
    with file.open("a") as still_open:
        courier.note(Event(EventType.MODEL_SAVED, 0, {"file": "model.keras"}))
        assert courier.drained(20)
        still_open.write(" changed later")
    stored = tmp_path / "artifacts" / job.id / "attempt-1" / "model.keras"
    assert (stored.read_text(), stored.stat().st_uid) == ("weights", 0)


def test_events_that_tell_of_no_file_are_not_for_the_courier(courier: Courier) -> None:
    courier.note(Event(EventType.EVALUATION, 3, {"val_loss": 1.0}))
    assert courier.drained(0)


def test_the_two_newest_checkpoints_of_all_attempts_are_kept(
    courier: Courier, database: Database, job: Any, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        saved(courier, number)
        assert courier.drained(DEADLINE_S)
    assert kept(database, job) == [1, 2]
    assert [name.split("-")[-1] for name in stored_files(tmp_path)] == [
        "2.safetensors",
        "3.safetensors",
    ]


def test_a_storage_that_fails_is_tried_again_and_that_is_said_once(
    courier: Courier, storage: Unreliable, database: Database, job: Any, warnings: list[Event]
) -> None:
    storage.refuses = 5
    saved(courier, 1)
    assert courier.drained(DEADLINE_S)
    assert kept(database, job) == [0]
    (warning,) = warnings
    assert warning.data["code"] == "artifact_failed"
    assert "It is full." in warning.data["message"]


def test_one_failure_is_nothing_to_tell_of(
    courier: Courier, storage: Unreliable, warnings: list[Event]
) -> None:
    storage.refuses = 1
    saved(courier, 1)
    assert courier.drained(DEADLINE_S)
    assert warnings == []


def test_of_checkpoints_that_wait_only_the_newest_is_published(
    courier: Courier,
    storage: Unreliable,
    database: Database,
    job: Any,
    wait_until: Callable[..., Any],
) -> None:
    storage.answers.clear()
    saved(courier, 1)
    wait_until(lambda: storage.tries == 1)
    for number in (2, 3, 4):
        saved(courier, number)
    storage.answers.set()
    assert courier.drained(DEADLINE_S)
    assert kept(database, job) == [0, 3]


def test_a_checkpoint_that_the_trainer_has_removed_is_forgotten(
    courier: Courier, storage: Unreliable, database: Database, job: Any, warnings: list[Event]
) -> None:
    name = "checkpoints/checkpoint-000001-step-1.safetensors"
    courier.note(Event(EventType.CHECKPOINT_SAVED, 0, {"file": name}))
    assert courier.drained(DEADLINE_S)
    assert (storage.tries, warnings, kept(database, job)) == (1, [], [])


def test_what_is_given_up_is_told_of(
    courier: Courier, storage: Unreliable, warnings: list[Event], wait_until: Callable[..., Any]
) -> None:
    storage.refuses = 10**6
    saved(courier, 1)
    wait_until(lambda: storage.tries > 0)
    assert not courier.drained(0.05)
    courier.give_up()
    assert courier.drained(DEADLINE_S)
    assert "checkpoint-000001" in warnings[-1].data["message"]


def removals(database: Database) -> list[str | None]:
    with database.read() as session:
        return [row.path for row in session.scalars(select(FileRemoval))]


def test_checkpoints_that_are_not_deleted_at_once_are_noted_and_deleted_later(
    courier: Courier,
    storage: Unreliable,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker may die between the commit and the files, or the storage be away."""

    def fail(*_: object) -> None:
        raise StorageFailed("It is away.")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "remove", fail)
        for number in (1, 2, 3):
            saved(courier, number)
            assert courier.drained(DEADLINE_S)
    old = "checkpoint-000001-step-1.safetensors"
    assert removals(database) == [f"attempt-1/checkpoints/{old}"]
    assert old in stored_files(tmp_path)
    saved(courier, 4)
    assert courier.drained(DEADLINE_S)
    assert len(removals(database)) == 1  # what was deleted at once needs no note any more
    with database.write() as session:
        session.execute(update(FileRemoval).values(due_at=after(-1)))
    remove_due_files(database, storage)
    assert old not in stored_files(tmp_path)
    assert len(stored_files(tmp_path)) == 2
    assert removals(database) == []


def test_a_file_that_has_a_row_again_is_not_deleted(
    courier: Courier, storage: Unreliable, database: Database, job: Any, tmp_path: Path
) -> None:
    saved(courier, 1)
    assert courier.drained(DEADLINE_S)
    with database.write() as session:
        [row] = artifacts.checkpoints(session, job.id)
        file_removals.note(session, job.id, [row.path])
        session.execute(update(FileRemoval).values(due_at=after(-1)))
    remove_due_files(database, storage)
    assert len(stored_files(tmp_path)) == 1
    assert removals(database) == []


def test_a_file_of_an_attempt_that_has_lost_its_job_does_not_count(
    courier: Courier, database: Database, job: Any, tmp_path: Path
) -> None:
    with database.write() as session:
        session.execute(update(Job).values(attempt=2))
    saved(courier, 1)
    assert courier.drained(DEADLINE_S)
    assert kept(database, job) == []
    assert stored_files(tmp_path) == []


def test_a_file_whose_row_is_written_stays_when_the_job_is_lost_before_that_is_known(
    courier: Courier, database: Database, job: Any, tmp_path: Path
) -> None:
    """The answer to the commit did not come, and at the next try another attempt has the job."""
    name = "attempt-1/checkpoints/checkpoint-000001-step-1.safetensors"
    with database.write() as session:
        artifacts.add(session, job.id, 1, Stored(name, CHECKPOINT, 0, 7, "0" * 64))
        session.execute(update(Job).values(attempt=2))
    saved(courier, 1)
    assert courier.drained(DEADLINE_S)
    assert kept(database, job) == [0]
    assert stored_files(tmp_path) == [Path(name).name]


def test_a_name_that_leads_out_of_the_folder_is_not_published(
    courier: Courier, tmp_path: Path, warnings: list[Event], database: Database, job: Any
) -> None:
    (tmp_path / "secret").write_text("a secret")
    courier.note(Event(EventType.MODEL_SAVED, 0, {"file": "../secret"}))
    saved(courier, 1)
    assert courier.drained(DEADLINE_S)
    assert kept(database, job) == [0]
    assert (tmp_path / "secret").exists()
    assert warnings[0].data["code"] == "artifact_failed"

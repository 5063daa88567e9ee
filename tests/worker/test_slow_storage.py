"""What becomes of jobs whose storage is slow, hangs or fails while they end."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ampspec.jobs import Reason, State
from infra.storage import Storage
from store.database import Database
from store.jobs import jobs
from tests import slow_store
from tests.slow_store import SlowFileSystem, set_rate
from tests.worker.conftest import Running, Start
from tests.worker.test_attempt import run_again
from worker.shutdown import Shutdown

Wait = Callable[[Running], None]
FAST = 1e9
STALL_S = 0.5
RATE = 2e6
"""Bytes a second: the large model takes twice the time for which uploads may make no progress."""


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone: both databases are tested without processes elsewhere."""
    return sqlite_url


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    fsspec.register_implementation("slow", SlowFileSystem, clobber=True)
    monkeypatch.setenv(slow_store.CONTROL, str(tmp_path / "rate"))
    monkeypatch.setattr(SlowFileSystem, "ended", threading.Event())
    set_rate(FAST)
    yield Storage(f"slow://{tmp_path}/artifacts")
    SlowFileSystem.ended.set()


@pytest.fixture
def waits_for_uploads(wait_until: Callable[..., Any]) -> Callable[[Running], dict[str, Any]]:
    """Waits until the job shows its uploads, and returns what it shows."""
    return lambda running: wait_until(lambda: running.job().uploading, "the job shows its uploads")


def warnings(running: Running) -> list[str]:
    return [event.data["code"] for event in running.events("warning")]


def test_a_job_is_paused_once_its_checkpoint_is_recorded(
    start: Start, until_running: Wait, storage: Storage, waits_for_uploads: Any
) -> None:
    set_rate(0)
    running = start("saves", storage=storage)
    until_running(running)
    running.ask(jobs.request_pause)
    uploading = waits_for_uploads(running)
    assert (uploading["files"], uploading["sent_bytes"]) == (1, 0)
    assert uploading["size_bytes"] > 0
    job = running.job()
    assert (job.state, job.activity) == (State.PAUSING, "uploading")
    set_rate(FAST)
    job = running.ended()
    assert (job.state, job.uploading, job.activity) == (State.PAUSED, None, None)
    assert "from its checkpoint after 10 steps." in job.message
    running.ask(jobs.resume)
    assert run_again(running).ended().state == State.SUCCEEDED
    assert running.steps() == list(range(30))


def test_a_pause_without_a_checkpoint_has_failed(
    start: Start, until_running: Wait, storage: Storage
) -> None:
    set_rate(0)
    running = start("saves", storage=storage, upload_stall_s=STALL_S)
    until_running(running)
    running.ask(jobs.request_pause)
    job = running.ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.STORAGE_UNAVAILABLE)
    assert "made no progress with checkpoints/checkpoint-000001-step-10" in job.message
    assert (
        "Retry it to train from the beginning, and its 10 steps are trained again." in job.message
    )
    set_rate(FAST)
    running.ask(jobs.retry)
    run_again(running).ended()
    assert "restarted_at_step_0" in warnings(running)


def test_a_trainer_that_was_killed_before_its_checkpoint_is_not_paused(
    start: Start, until_running: Wait
) -> None:
    running = start("ignores_sigterm", grace_s=0.3)
    until_running(running)
    running.ask(jobs.request_pause)
    job = running.ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.CHECKPOINT_FAILED)
    assert job.message == (
        "It could not be paused: no checkpoint was stored. Retry it to train from the beginning, "
        "and its 10 steps are trained again."
    )


def test_a_job_without_steps_is_paused_without_a_checkpoint(
    start: Start, wait_until: Callable[..., Any]
) -> None:
    running = start("hangs")
    wait_until(lambda: running.job().state == State.STARTING)
    running.ask(jobs.request_pause)
    job = running.ended()
    assert job.state == State.PAUSED
    assert job.message.endswith("Resume it to train from the beginning.")


def test_a_job_succeeds_once_all_of_its_files_are_recorded(
    start: Start, storage: Storage, waits_for_uploads: Any
) -> None:
    set_rate(0)
    running = start("good", storage=storage)
    assert waits_for_uploads(running)["files"] == 2
    assert running.job().state == State.RUNNING
    set_rate(FAST)
    assert running.ended().state == State.SUCCEEDED
    assert [file.kind for file in running.files()] == ["model", "weights", "report"]


def test_a_success_whose_model_cannot_be_stored_is_retried(start: Start, storage: Storage) -> None:
    set_rate(0)
    running = start("good", storage=storage, upload_stall_s=STALL_S, runtime={"max_attempts": 2})
    job = running.ended()
    assert (job.state, job.reason) == (State.QUEUED, Reason.STORAGE_UNAVAILABLE)
    assert "made no progress with model.keras and 1 more file (0 bytes of 14 bytes" in job.message
    assert running.files() == []


def test_a_file_that_the_trainer_names_and_does_not_write_is_no_success(start: Start) -> None:
    job = start("names_a_missing_model").ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
    assert job.message.startswith("model.keras could not be stored: the trainer named it")


def test_a_success_without_its_report_is_none(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.attempt.finalize.REPORT_FILE", "no such folder/report.json")
    job = start("good").ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
    assert "report.json could not be stored: No such file or directory." in job.message


@pytest.mark.parametrize("reports", [True, False])
def test_uploads_that_take_longer_than_the_limit_succeed_as_long_as_they_advance(
    start: Start, storage: Storage, monkeypatch: pytest.MonkeyPatch, reports: bool
) -> None:
    """2 MB in some 30 parts; without reports, only its remaining bytes allow it to go on."""
    monkeypatch.setattr(SlowFileSystem, "reports", reports)
    set_rate(RATE)
    running = start("saves_a_large_model", storage=storage, upload_stall_s=STALL_S)
    assert running.ended().state == State.SUCCEEDED


def test_a_cancel_ends_a_job_that_uploads(
    start: Start, storage: Storage, waits_for_uploads: Any
) -> None:
    set_rate(0)
    running = start("good", storage=storage)
    waits_for_uploads(running)
    running.ask(jobs.request_cancel)
    job = running.ended()
    assert (job.state, job.uploading) == (State.CANCELLED, None)
    assert warnings(running) == ["artifact_failed", "artifact_failed"]


def test_a_drain_waits_for_uploads(
    start: Start, until_running: Wait, storage: Storage, waits_for_uploads: Any
) -> None:
    set_rate(0)
    running = start("saves", storage=storage)
    until_running(running)
    running.context.shutting_down.set()
    waits_for_uploads(running)
    set_rate(FAST)
    job = running.ended()
    assert (job.state, job.reason) == (State.QUEUED, Reason.WORKER_SHUTDOWN)
    assert job.message == (
        "Its worker was shut down. It trains again, from its checkpoint after 10 steps."
    )


def test_a_drain_past_its_deadline_says_what_is_lost(
    start: Start, until_running: Wait, storage: Storage
) -> None:
    set_rate(0)
    running = start("saves", storage=storage, shutting_down=Shutdown(0.2))
    until_running(running)
    running.context.shutting_down.set()
    job = running.ended()
    assert (job.state, job.reason) == (State.QUEUED, Reason.WORKER_SHUTDOWN)
    assert "had to shut down before it had stored checkpoints/checkpoint-000001" in job.message
    assert "from the beginning, and its 10 steps are trained again." in job.message
    assert warnings(running) == ["artifact_failed"]


def test_a_pause_that_a_drain_cuts_short_is_not_called_paused(
    start: Start, until_running: Wait, storage: Storage
) -> None:
    set_rate(0)
    running = start("saves", storage=storage, shutting_down=Shutdown(0.2))
    until_running(running)
    running.ask(jobs.request_pause)
    running.context.shutting_down.set()
    job = running.ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.CHECKPOINT_FAILED)
    assert "had to shut down before it had stored" in job.message


def test_a_trainer_that_still_writes_its_checkpoint_is_not_killed(
    start: Start, until_running: Wait
) -> None:
    """It writes for four times as long as it may take to begin."""
    running = start("saves_slowly", grace_s=0.5)
    until_running(running)
    running.ask(jobs.request_pause)
    assert running.ended().state == State.PAUSED
    assert [file.kind for file in running.files()] == ["checkpoint", "report"]


def test_a_worker_takes_no_job_while_its_storage_fails(
    make_context: Callable[..., Any],
    make_job: Callable[..., Any],
    database: Database,
    tmp_path: Path,
    wait_until: Callable[..., Any],
) -> None:
    from infra.storage_check import StorageCheck

    place = tmp_path / "artifacts"
    place.write_text("not a folder")
    storage = Storage(place.as_uri())
    check = StorageCheck(storage, every_s=0.05, retry_s=0.05)
    running = Running(
        make_context("good", storage=storage, storage_check=check), database, make_job().id
    )
    check.start()
    try:
        assert running.start().ended().state == State.QUEUED
        assert check.error == "the storage of artifacts cannot be used: Not a directory."
        place.unlink()
        wait_until(lambda: check.error is None)
        assert running.start().ended().state == State.SUCCEEDED
    finally:
        check.stop()

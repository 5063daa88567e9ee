"""One attempt from claim to outcome: every way in which it can end."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update

from ampspec.jobs import Reason, State
from ampspec.telemetry.events import PROFILE_NOT_TAKEN
from infra.storage import Storage, StorageFailed
from store.clock import from_now
from store.database import Database
from store.files.artifacts import CHECKPOINT
from store.jobs import attempts, jobs
from store.tables import Attempt, Job
from tests.processes import has_ended
from tests.waiting import DEADLINE_S
from tests.worker.conftest import Running, Start
from worker.transfer.artifact_uploader import ArtifactUploader

Wait = Callable[[Running], None]


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone: both databases are tested without processes elsewhere."""
    return sqlite_url


def run_again(running: Running) -> Running:
    """The same worker receives another message, now that the job is due."""
    return Running(running.context, running.database, running.job_id).start()


def make_due(running: Running) -> None:
    with running.database.write() as session:
        session.execute(update(Job).values(not_before=None))


def test_a_successful_run_is_stored_completely(start: Start) -> None:
    running = start("good")
    job = running.ended()
    assert (job.state, job.step, job.total_steps) == (State.SUCCEEDED, 30, 30)
    assert job.summary == {"steps": 30}
    assert job.latest is not None
    assert (job.latest["skipped"], job.latest["loss"]) == (30, "NaN")
    assert running.steps() == list(range(30))
    assert running.states() == ["queued", "starting", "running", "succeeded"]
    assert running.log() == "ready for good\n"


def test_a_job_shows_what_its_trainer_does_until_it_ends(
    start: Start, wait_until: Callable[..., Any], tmp_path: Path
) -> None:
    running = start("evaluates_as_allowed")
    folder = tmp_path / "datasets"
    folder.mkdir(exist_ok=True)
    for number, activity in enumerate(("evaluating", "training", "saving"), 1):
        wait_until(lambda shown=activity: running.job().activity == shown, f"it shows {activity}")
        assert running.job().activity_since is not None
        (folder / "allowed.new").write_text(str(number))
        (folder / "allowed.new").rename(folder / "allowed")
    job = running.ended()
    assert (job.state, job.activity, job.activity_since) == (State.SUCCEEDED, None, None)


def test_the_model_and_a_report_are_uploaded(start: Start, tmp_path: Path) -> None:
    running = start("good")
    job = running.ended()
    model, weights, report = running.files()
    assert (weights.path, weights.kind) == ("attempt-1/weights.safetensors", "weights")
    assert (model.path, model.kind, model.step) == ("attempt-1/model.keras", "model", 30)
    assert (report.path, report.kind) == ("attempt-1/report.json", "report")
    folder = tmp_path / "artifacts" / job.id
    assert (folder / model.path).read_text() == "a model"
    content = json.loads((folder / report.path).read_text())
    assert content["outcome"] == "succeeded"
    assert content["summary"] == {"steps": 30}
    assert content["spec"] == job.spec
    assert content["hardware"] == {"device": "script"}
    assert content["versions"]["script"] == "1"
    assert running.events("state")[-1].seq > report.seq  # the outcome follows the uploads


def test_a_requested_profile_reaches_the_trainer_and_its_files_are_uploaded(
    start: Start, until_running: Wait, tmp_path: Path
) -> None:
    running = start("profiles_on_request")
    until_running(running)
    with running.database.write() as session:
        assert jobs.request_profile(session, running.job_id, steps=7) is not None
    job = running.ended()
    assert job.state == State.SUCCEEDED
    profile = [file for file in running.files() if file.kind == "profile"]
    assert [file.path for file in profile] == [
        "attempt-1/profile/step-10/report.json",
        "attempt-1/profile/step-10/profile.xplane.pb",
    ]
    report = tmp_path / "artifacts" / job.id / profile[0].path
    assert json.loads(report.read_text()) == {"steps": 7}
    with running.database.write() as session:
        assert jobs.request_profile(session, running.job_id, steps=7) is None


def test_a_profile_that_an_attempt_did_not_live_to_take_is_said_to_be_lost(
    start: Start, until_running: Wait
) -> None:
    running = start("is_killed_by_a_profile")
    until_running(running)
    with running.database.write() as session:
        jobs.request_profile(session, running.job_id, steps=7)
    running.ended()
    [warning] = running.events("warning")
    assert warning.data["code"] == PROFILE_NOT_TAKEN
    assert "request it again" in warning.data["message"]


def test_a_permanent_failure_waits_for_the_upload_of_its_checkpoint(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later attempt would upload it."""
    put, wait_until_empty, waited = (
        Storage.put,
        ArtifactUploader.wait_until_empty,
        threading.Event(),
    )

    def unreliable(*arguments: Any, **options: Any) -> Any:
        if not waited.is_set():
            raise StorageFailed("unreachable until the worker waits for uploads")
        return put(*arguments, **options)

    def wait_and_notify(*arguments: Any) -> bool:
        try:
            return wait_until_empty(*arguments)
        finally:
            waited.set()

    monkeypatch.setattr(Storage, "put", unreliable)
    monkeypatch.setattr(ArtifactUploader, "wait_until_empty", wait_and_notify)
    running = start("fails_with_a_checkpoint")
    job = running.ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.NON_FINITE_RESULT)
    assert (job.failures, job.not_before) == (1, None)
    [checkpoint] = [file for file in running.files() if file.kind == CHECKPOINT]
    assert checkpoint.step == 20


def test_the_scratch_folder_is_empty_after_an_attempt(start: Start, tmp_path: Path) -> None:
    start("good").ended()
    assert list((tmp_path / "scratch").rglob("*attempt*")) == []


def test_the_trainers_environment_has_no_secrets(
    start: Start, until_running: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMPCORE_DATABASE_URL", "secret")
    running = start("ends_on_sigterm")
    until_running(running)
    assert "AMPCORE_DATABASE_URL" not in running.process().environ()


def test_a_trainer_that_is_never_ready_fails_the_attempt(start: Start) -> None:
    job = start("hangs", ready_timeout_s=0.5).ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
    assert "not ready after 0.5 s" in str(job.message)


class TestCancel:
    def test_a_cancel_is_recorded_after_the_process_has_ended(
        self, start: Start, until_running: Wait
    ) -> None:
        running = start("ends_on_sigterm")
        until_running(running)
        process = running.process()
        running.ask(jobs.request_cancel)
        assert running.job().state == State.STOPPING
        job = running.ended()
        assert (job.state, job.reason) == (State.CANCELLED, Reason.USER_REQUEST)
        assert has_ended(process)

    def test_a_trainer_that_ignores_sigterm_is_killed_with_its_group(
        self, start: Start, until_running: Wait, wait_until: Callable[..., None]
    ) -> None:
        running = start("ignores_sigterm", grace_s=0.3)
        until_running(running)
        process = running.process()
        group = [process, *wait_until(process.children)]
        running.ask(jobs.request_cancel)
        assert running.ended().state == State.CANCELLED
        assert all(map(has_ended, group))

    def test_a_cancel_outranks_a_later_success(self, start: Start, until_running: Wait) -> None:
        running = start("succeeds_when_stopped")
        until_running(running)
        running.ask(jobs.request_cancel)
        assert running.ended().state == State.CANCELLED

    def test_a_cancel_outranks_a_pause(
        self, start: Start, until_running: Wait, wait_until: Callable[..., None]
    ) -> None:
        running = start("ignores_sigterm", grace_s=2.0)
        until_running(running)
        # In one transaction: after the grace period of the pause, the job would be paused.
        running.ask(lambda *job: jobs.request_pause(*job) and jobs.request_cancel(*job))
        assert running.ended().state == State.CANCELLED


class TestPause:
    def test_a_paused_job_resumes_from_its_checkpoint(
        self, start: Start, until_running: Wait
    ) -> None:
        running = start("saves")
        until_running(running)
        running.ask(jobs.request_pause)
        assert running.ended().state == State.PAUSED
        running.ask(jobs.resume)
        run_again(running).ended()
        job = running.job()
        assert (job.state, job.attempt, job.failures) == (State.SUCCEEDED, 2, 0)
        assert running.steps() == list(range(30))
        with running.database.read() as session:
            first_steps = [row.first_step for row in attempts.listing(session, job.id)]
        assert first_steps == [0, 10]
        assert job.latest is not None
        assert job.latest["skipped"] == 30  # including those of the first attempt

    def test_a_success_during_a_pause_request_stays_a_success(
        self, start: Start, until_running: Wait
    ) -> None:
        running = start("succeeds_when_stopped")
        until_running(running)
        running.ask(jobs.request_pause)
        assert running.ended().state == State.SUCCEEDED

    def test_a_failure_during_a_pause_request_stays_a_failure(
        self, start: Start, until_running: Wait
    ) -> None:
        running = start("fails_when_stopped")
        until_running(running)
        running.ask(jobs.request_pause)
        job = running.ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.INVALID_DATA)


class TestDrain:
    def test_a_shutdown_hands_the_job_back_and_it_resumes(
        self, start: Start, until_running: Wait
    ) -> None:
        running = start("saves")
        until_running(running)
        running.context.shutting_down.set()
        job = running.ended()
        assert (job.state, job.reason, job.failures) == (State.QUEUED, Reason.WORKER_SHUTDOWN, 0)
        assert [file.kind for file in running.files()] == ["checkpoint", "report"]
        running.context.shutting_down.clear()
        assert run_again(running).ended().state == State.SUCCEEDED
        assert running.steps() == list(range(30))

    def test_a_shutdown_does_not_wait_for_a_trainer_without_steps(
        self, start: Start, wait_until: Callable[..., None]
    ) -> None:
        running = start("hangs")
        wait_until(lambda: running.job().state == State.STARTING)
        running.context.shutting_down.set()
        assert running.ended().state == State.QUEUED


class TestTimeout:
    def test_a_timeout_fails_the_job_and_a_retry_resumes_it(
        self, start: Start, until_running: Wait, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running = start("saves", runtime={"timeout_s": 7200.0})
        until_running(running)
        with monkeypatch.context() as patch:
            later = SimpleNamespace(monotonic=lambda: time.monotonic() + 7200)
            patch.setattr("worker.attempt.stop_reason.time", later)
            job = running.ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.TIMEOUT)
        assert "7200 s" in (job.message or "")
        assert "retry" in (job.message or "").lower()
        running.ask(jobs.retry)
        assert run_again(running).ended().state == State.SUCCEEDED
        assert running.steps() == list(range(30))

    def test_the_time_of_earlier_attempts_counts(self, start: Start, until_running: Wait) -> None:
        running = start("saves", runtime={"timeout_s": 3600.0})
        until_running(running)
        running.ask(jobs.request_pause)
        running.ended()
        self.backdate_attempts(running, hours=2)
        running.ask(jobs.resume)
        job = run_again(running).ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.TIMEOUT)

    def backdate_attempts(self, running: Running, hours: float) -> None:
        with running.database.write() as session:
            session.execute(update(Attempt).values(started_at=from_now(-hours * 3600)))


class TestFence:
    def test_a_fenced_attempt_ends_its_process_and_writes_nothing(
        self, start: Start, until_running: Wait
    ) -> None:
        running = start("endless")
        until_running(running)
        process = running.process()
        running.fence()
        last = len(running.steps())
        job = running.ended()
        assert has_ended(process)
        assert (job.state, job.attempt) == (State.RUNNING, 2)
        assert len(running.steps()) == last
        assert running.files() == []

    def test_a_fenced_trainer_is_killed_without_grace(
        self, start: Start, until_running: Wait
    ) -> None:
        running = start("ignores_sigterm", grace_s=10 * DEADLINE_S)
        until_running(running)
        running.fence()
        running.ended()


class TestFailure:
    def test_a_crashed_attempt_is_retried_from_its_checkpoint(self, start: Start) -> None:
        running = start("crash_after_saving", runtime={"max_attempts": 2})
        job = running.ended()
        assert (job.state, job.reason) == (State.QUEUED, Reason.INTERNAL_ERROR)
        make_due(running)
        run_again(running).ended()
        job = running.job()
        assert (job.state, job.attempt) == (State.SUCCEEDED, 2)
        assert running.steps() == list(range(30))
        assert job.latest is not None
        assert job.latest["skipped"] == 30  # the ten repeated steps count once

    def test_the_message_names_the_signal(self, start: Start) -> None:
        job = start("killed").ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.PROCESS_KILLED)
        assert "SIGKILL" in (job.message or "")

    def test_an_oom_kill_is_reported_as_out_of_memory(
        self, start: Start, tmp_path: Path, until_running: Wait
    ) -> None:
        events = tmp_path / "memory.events"
        events.write_text("low 0\noom 1\noom_kill 4\n")
        running = start("ends_on_sigterm", memory_events=events, runtime={"max_attempts": 3})
        until_running(running)
        events.write_text("low 0\noom 2\noom_kill 5\n")
        os.kill(running.process().pid, signal.SIGKILL)
        job = running.ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.OUT_OF_MEMORY)

    def test_a_crash_quotes_the_last_line_of_the_log(self, start: Start) -> None:
        job = start("crash").ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
        assert "exited with code 3" in (job.message or "")
        assert "the last words" in (job.message or "")
        assert job.step == 10

    def test_an_unusable_scratch_folder_fails_the_attempt(
        self, start: Start, tmp_path: Path
    ) -> None:
        (tmp_path / "scratch").write_text("not a folder")
        job = start("good").ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)


class TestLog:
    def test_log_characters_stay_whole_and_streams_separate(self, start: Start) -> None:
        running = start("prints")
        running.ended()
        assert running.log() == "ready for prints\ngrüße €\n"
        assert running.log("stderr") == "and an error\n"


class TestCheckpoints:
    def test_the_two_newest_checkpoints_are_kept(self, start: Start, tmp_path: Path) -> None:
        running = start("many_checkpoints")
        job = running.ended()
        assert [file.step for file in running.files() if file.kind == "checkpoint"] == [20, 30]
        folder = tmp_path / "artifacts" / job.id / "attempt-1" / "checkpoints"
        assert sorted(file.name.split("-")[-1] for file in folder.iterdir()) == [
            "20.safetensors",
            "30.safetensors",
        ]

    def test_a_damaged_checkpoint_falls_back_to_the_one_before(
        self, start: Start, tmp_path: Path
    ) -> None:
        running = start("many_checkpoints")
        job = running.ended()
        newest = max((tmp_path / "artifacts" / job.id).rglob("*.safetensors"))
        newest.write_text("something else")
        self.run_once_more(running)
        (warning,) = running.events("warning")
        assert warning.data["code"] == "checkpoint_unusable"

    def run_once_more(self, running: Running) -> None:
        with running.database.write() as session:
            session.execute(update(Job).values(state=State.QUEUED))
        run_again(running).ended()


def test_many_messages_for_one_job_run_it_once(
    make_context: Any, make_job: Callable[..., Any], database: Database
) -> None:
    context, job = make_context("good"), make_job()
    runs = [Running(context, database, job.id).start() for _ in range(4)]
    for run in runs:
        done = run.ended()
    assert (done.attempt, done.state) == (1, State.SUCCEEDED)


def test_an_extension_whose_source_is_gone_fails_for_good(
    start: Start, make_job: Callable[..., Any], database: Database
) -> None:
    job = make_job()
    with database.write() as session:
        session.execute(update(Job).values(extends="0123456789ab"))
    ended = start("good", job=job).ended()
    assert (ended.state, ended.reason) == (State.FAILED, Reason.INVALID_CHECKPOINT)
    assert "Job 0123456789ab, which this job extends" in (ended.message or "")

"""One job from claim to end: every way in which an attempt can end."""

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

from ampcore.spec import Reason, State
from service.storage import Storage, StorageFailed
from store import attempts, jobs
from store.artifacts import CHECKPOINT
from store.clock import after
from store.database import Database
from store.tables import Attempt, Job
from tests.processes import has_ended
from tests.waiting import DEADLINE_S
from tests.worker.conftest import Running, Start
from worker.courier import Courier

Wait = Callable[[Running], None]


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One kind is enough: what SQL answers is tested without processes."""
    return sqlite_url


def again(running: Running) -> Running:
    """The same worker hears another bell, now that the job is due."""
    return Running(running.shop, running.database, running.job_id).start()


def make_due(running: Running) -> None:
    with running.database.write() as session:
        session.execute(update(Job).values(not_before=None))


def test_a_good_run_is_written_down_whole(start: Start) -> None:
    running = start("good")
    job = running.ended()
    assert (job.state, job.step, job.total_steps) == (State.SUCCEEDED, 30, 30)
    assert job.summary == {"steps": 30}
    assert job.latest is not None
    assert (job.latest["skipped"], job.latest["loss"]) == (30, "NaN")
    assert running.steps() == list(range(30))
    assert running.states() == ["queued", "starting", "running", "succeeded"]
    assert running.log() == "ready for good\n"


def test_the_model_and_a_report_are_published(start: Start, tmp_path: Path) -> None:
    running = start("good")
    job = running.ended()
    model, report = running.files()
    assert (model.path, model.kind, model.step) == ("attempt-1/model.keras", "model", 29)
    assert (report.path, report.kind) == ("attempt-1/report.json", "report")
    folder = tmp_path / "artifacts" / job.id
    assert (folder / model.path).read_text() == "a model"
    told = json.loads((folder / report.path).read_text())
    assert told["outcome"] == "succeeded"
    assert told["summary"] == {"steps": 30}
    assert told["spec"] == job.spec
    assert told["hardware"] == {"device": "script"}
    assert told["versions"]["script"] == "1"
    assert running.events("state")[-1].seq > report.seq  # the end comes when all files are there


def test_the_checkpoint_of_a_job_that_failed_by_its_own_fault_is_waited_for(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as for a model: nobody else makes it."""
    monkeypatch.setattr("worker.closing.STOPPED_S", 0.0)
    put, drained, waited = Storage.put, Courier.drained, threading.Event()

    def unreliable(*arguments: Any) -> Any:
        if not waited.is_set():
            raise StorageFailed("It is away until somebody waits for it.")
        return put(*arguments)

    def told(*arguments: Any) -> bool:
        try:
            return drained(*arguments)
        finally:
            waited.set()

    monkeypatch.setattr(Storage, "put", unreliable)
    monkeypatch.setattr(Courier, "drained", told)
    running = start("fails_with_a_checkpoint")
    job = running.ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.NON_FINITE_RESULT)
    assert (job.failures, job.not_before) == (1, None)
    [checkpoint] = [file for file in running.files() if file.kind == CHECKPOINT]
    assert checkpoint.step == 19


def test_nothing_is_left_in_scratch(start: Start, tmp_path: Path) -> None:
    start("good").ended()
    assert list((tmp_path / "scratch").rglob("*attempt*")) == []


def test_the_trainer_sees_no_secret_of_the_worker(
    start: Start, until_running: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMPCORE_DATABASE_URL", "secret")
    running = start("obedient")
    until_running(running)
    assert "AMPCORE_DATABASE_URL" not in running.process().environ()


def test_a_trainer_that_never_becomes_ready_is_not_waited_for(start: Start) -> None:
    job = start("hangs", ready_s=0.5).ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
    assert "not ready after 0.5 s" in str(job.message)


class TestCancel:
    def test_it_is_written_when_the_process_is_gone(
        self, start: Start, until_running: Wait
    ) -> None:
        running = start("obedient")
        until_running(running)
        process = running.process()
        running.ask(jobs.request_cancel)
        assert running.job().state == State.STOPPING
        job = running.ended()
        assert (job.state, job.reason) == (State.CANCELLED, Reason.USER_REQUEST)
        assert has_ended(process)

    def test_a_step_that_does_not_return_is_killed_with_its_whole_group(
        self, start: Start, until_running: Wait, wait_until: Callable[..., None]
    ) -> None:
        running = start("deaf", grace_s=0.3)
        until_running(running)
        process = running.process()
        group = [process, *wait_until(process.children)]
        running.ask(jobs.request_cancel)
        assert running.ended().state == State.CANCELLED
        assert all(map(has_ended, group))

    def test_it_wins_over_a_success_that_comes_later(
        self, start: Start, until_running: Wait
    ) -> None:
        running = start("succeeds_when_stopped")
        until_running(running)
        running.ask(jobs.request_cancel)
        assert running.ended().state == State.CANCELLED

    def test_it_wins_over_a_pause(
        self, start: Start, until_running: Wait, wait_until: Callable[..., None]
    ) -> None:
        running = start("deaf", grace_s=2.0)
        until_running(running)
        # At one moment: after its time to obey the pause, a deaf trainer's job is paused.
        running.ask(lambda *job: jobs.request_pause(*job) and jobs.request_cancel(*job))
        assert running.ended().state == State.CANCELLED


class TestPause:
    def test_a_paused_job_goes_on_from_its_checkpoint(
        self, start: Start, until_running: Wait
    ) -> None:
        running = start("saves")
        until_running(running)
        running.ask(jobs.request_pause)
        assert running.ended().state == State.PAUSED
        running.ask(jobs.resume)
        again(running).ended()
        job = running.job()
        assert (job.state, job.attempt, job.failures) == (State.SUCCEEDED, 2, 0)
        assert running.steps() == list(range(30))
        with running.database.read() as session:
            first_steps = [row.first_step for row in attempts.listing(session, job.id)]
        assert first_steps == [0, 10]
        assert job.latest is not None
        assert job.latest["skipped"] == 30  # also those of the first attempt

    def test_a_success_in_the_meantime_stays_one(self, start: Start, until_running: Wait) -> None:
        running = start("succeeds_when_stopped")
        until_running(running)
        running.ask(jobs.request_pause)
        assert running.ended().state == State.SUCCEEDED

    def test_a_failure_in_the_meantime_stays_one(self, start: Start, until_running: Wait) -> None:
        running = start("fails_when_stopped")
        until_running(running)
        running.ask(jobs.request_pause)
        job = running.ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.INVALID_DATA)


class TestDrain:
    def test_the_job_is_given_back_and_goes_on_elsewhere(
        self, start: Start, until_running: Wait
    ) -> None:
        running = start("saves")
        until_running(running)
        running.shop.shutting_down.set()
        job = running.ended()
        assert (job.state, job.reason, job.failures) == (State.QUEUED, Reason.WORKER_SHUTDOWN, 0)
        assert [file.kind for file in running.files()] == ["checkpoint", "report"]
        running.shop.shutting_down.clear()
        assert again(running).ended().state == State.SUCCEEDED
        assert running.steps() == list(range(30))

    def test_a_trainer_that_has_not_begun_is_not_waited_for(
        self, start: Start, wait_until: Callable[..., None]
    ) -> None:
        running = start("hangs")
        wait_until(lambda: running.job().state == State.STARTING)
        running.shop.shutting_down.set()
        assert running.ended().state == State.QUEUED


class TestTimeout:
    def test_the_time_is_over(
        self, start: Start, until_running: Wait, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running = start("saves", runtime={"timeout_s": 7200.0})
        until_running(running)
        with monkeypatch.context() as patch:
            later = SimpleNamespace(monotonic=lambda: time.monotonic() + 7200)
            patch.setattr("worker.halts.time", later)
            job = running.ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.TIMEOUT)
        assert "7200 s" in (job.message or "")
        assert "retry" in (job.message or "").lower()
        running.ask(jobs.retry)
        assert again(running).ended().state == State.SUCCEEDED
        assert running.steps() == list(range(30))

    def test_earlier_attempts_count(self, start: Start, until_running: Wait) -> None:
        running = start("saves", runtime={"timeout_s": 3600.0})
        until_running(running)
        running.ask(jobs.request_pause)
        running.ended()
        self.pretend_that_it_took(running, hours=2)
        running.ask(jobs.resume)
        job = again(running).ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.TIMEOUT)

    def pretend_that_it_took(self, running: Running, hours: float) -> None:
        with running.database.write() as session:
            session.execute(update(Attempt).values(started_at=after(-hours * 3600)))


class TestFence:
    def test_a_fenced_attempt_stops_its_process_and_writes_nothing_more(
        self, start: Start, until_running: Wait
    ) -> None:
        running = start("endless")
        until_running(running)
        process = running.process()
        running.take_away()
        last = len(running.steps())
        job = running.ended()
        assert has_ended(process)
        assert (job.state, job.attempt) == (State.RUNNING, 2)
        assert len(running.steps()) == last
        assert running.files() == []

    def test_a_fenced_trainer_is_not_waited_for(self, start: Start, until_running: Wait) -> None:
        running = start("deaf", grace_s=10 * DEADLINE_S)
        until_running(running)
        running.take_away()
        running.ended()


class TestUnexplained:
    def test_a_killed_trainer_is_tried_again_from_its_checkpoint(self, start: Start) -> None:
        running = start("crash_after_saving", runtime={"max_attempts": 2})
        job = running.ended()
        assert (job.state, job.reason) == (State.QUEUED, Reason.INTERNAL_ERROR)
        make_due(running)
        again(running).ended()
        job = running.job()
        assert (job.state, job.attempt) == (State.SUCCEEDED, 2)
        assert running.steps() == list(range(30))
        assert job.latest is not None
        assert job.latest["skipped"] == 30  # the ten steps that came twice count once

    def test_a_kill_says_which_signal_it_was(self, start: Start) -> None:
        job = start("killed").ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.PROCESS_KILLED)
        assert "SIGKILL" in (job.message or "")

    def test_a_kill_while_memory_ran_out_is_called_that(
        self, start: Start, tmp_path: Path, until_running: Wait
    ) -> None:
        events = tmp_path / "memory.events"
        events.write_text("low 0\noom 1\noom_kill 4\n")
        running = start("obedient", memory_events=events, runtime={"max_attempts": 3})
        until_running(running)
        events.write_text("low 0\noom 2\noom_kill 5\n")
        os.kill(running.process().pid, signal.SIGKILL)
        job = running.ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.OUT_OF_MEMORY)

    def test_a_crash_without_a_word_quotes_the_end_of_the_log(self, start: Start) -> None:
        job = start("crash").ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
        assert "exit code 3" in (job.message or "")
        assert "the last words" in (job.message or "")
        assert job.step == 10

    def test_bytes_that_are_no_frames_end_the_job_and_its_process(self, start: Start) -> None:
        job = start("garbage").ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)

    def test_what_no_database_takes_ends_the_job_and_its_process(self, start: Start) -> None:
        job = start("poison").ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
        assert "could not run the job" in (job.message or "")

    def test_a_place_where_nothing_can_be_written_is_a_failure(
        self, start: Start, tmp_path: Path
    ) -> None:
        (tmp_path / "scratch").write_text("not a folder")
        job = start("good").ended()
        assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)


class TestLog:
    def test_characters_come_whole_and_streams_apart(self, start: Start) -> None:
        running = start("talks")
        running.ended()
        assert running.log() == "ready for talks\ngrüße €\n"
        assert running.log("stderr") == "and an error\n"


class TestCheckpoints:
    def test_the_two_newest_are_kept(self, start: Start, tmp_path: Path) -> None:
        running = start("many_checkpoints")
        job = running.ended()
        assert [file.step for file in running.files() if file.kind == "checkpoint"] == [19, 29]
        folder = tmp_path / "artifacts" / job.id / "attempt-1" / "checkpoints"
        assert sorted(file.name.split("-")[-1] for file in folder.iterdir()) == [
            "20.safetensors",
            "30.safetensors",
        ]

    def test_a_damaged_one_is_passed_over_for_the_one_before(
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
        again(running).ended()


def test_many_bells_for_one_job_run_it_once(
    make_shop: Any, make_job: Callable[..., Any], database: Database
) -> None:
    shop, job = make_shop("good"), make_job()
    ringing = [Running(shop, database, job.id).start() for _ in range(4)]
    for one in ringing:
        done = one.ended()
    assert (done.attempt, done.state) == (1, State.SUCCEEDED)

"""One job from claim to end, on a real database, with real child processes that follow a script."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import update

from ampcore.series.frames import Frame, FrameType
from ampcore.spec import JobSpec, Reason, State
from store import events, jobs, steps
from store.database import Database
from store.tables import Job, StepBlockRow
from worker.standby import Standby
from worker.tasks import Ending, Slots, finish, unexplained

SCRIPT = Path(__file__).with_name("scripted_trainer.py")
SPEC = JobSpec.parse({"model": {"kind": "mlp"}, "data": {"kind": "digits"}})
WORKER = "w0"


class Running:
    """A job under way in a slot's thread."""

    def __init__(self, slots: Slots, database: Database) -> None:
        self.slots = slots
        self.database = database
        with database.write() as session:
            self.job_id = jobs.create(session, SPEC).id
        self._thread = threading.Thread(target=slots.train, args=[self.job_id])
        self._thread.start()

    def job(self) -> Job:
        with self.database.read() as session:
            job = jobs.get(session, self.job_id)
            assert job is not None
            return job

    def process(self) -> psutil.Process:
        """The trainer: the child whose output goes to the job's folder."""
        for child in psutil.Process().children():
            if any(self.job_id in file.path for file in child.open_files()):
                return child
        raise AssertionError("no trainer process found")

    def ended(self, timeout_s: float = 30) -> Job:
        self._thread.join(timeout_s)
        assert not self._thread.is_alive()
        return self.job()


Start = Callable[[str], Running]


@pytest.fixture
def start(database: Database, tmp_path: Path) -> Iterator[Start]:
    """Run a job with a trainer that follows the named script."""
    begun: list[Running] = []

    def run(script: str) -> Running:
        standby = Standby(tmp_path / "logs", (sys.executable, str(SCRIPT), script))
        begun.append(Running(Slots(database, WORKER, tmp_path, standby), database))
        return begun[-1]

    yield run
    for running in begun:
        running.slots.shutting_down.set()
        running.ended()
        running.slots.standby.close()
    assert psutil.Process().children() == [] or not any(
        "scripted_trainer" in " ".join(child.cmdline()) for child in psutil.Process().children()
    )


@pytest.fixture
def until_running(wait_until: Callable[..., None]) -> Callable[[Running], None]:
    def wait(running: Running) -> None:
        wait_until(lambda: running.job().step >= 10, timeout_s=20)

    return wait


def test_a_good_run_is_written_down_whole(start: Start, database: Database) -> None:
    job = start("good").ended()
    assert (job.state, job.step, job.total_steps) == (State.SUCCEEDED, 30, 30)
    assert job.summary == {"steps": 30}
    assert job.latest is not None
    assert job.latest["skipped"] == 30
    assert job.latest["loss"] == "NaN"
    with database.read() as session:
        reading = steps.read(session, job.id, start=0, end=None, limit=100)
        told = [row.data["state"] for row in events.read(session, job.id, after=0, limit=100)]
    assert reading.block["step"].tolist() == list(range(30))
    assert told == ["queued", "starting", "running", "succeeded"]


def test_a_worker_that_shuts_down_claims_nothing(database: Database, tmp_path: Path) -> None:
    slots = Slots(database, WORKER, tmp_path, Standby(tmp_path))
    slots.shutting_down.set()
    with database.write() as session:
        job_id = jobs.create(session, SPEC).id
    slots.train(job_id)
    with database.read() as session:
        assert jobs.get(session, job_id).state == State.QUEUED  # type: ignore[union-attr]


def test_the_trainer_sees_no_secret_of_the_worker(
    start: Start, until_running: Callable[[Running], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMPCORE_DATABASE_URL", "secret")
    running = start("obedient")
    until_running(running)
    assert "AMPCORE_DATABASE_URL" not in running.process().environ()


def test_a_trainer_that_somebody_else_told_to_stop_is_a_killed_one() -> None:
    said: list[tuple[Reason, str]] = []

    class Listener:
        def failed(self, reason: Reason, message: str) -> None:
            said.append((reason, message))

    listener: Any = Listener()
    finish(listener, Ending(Frame(FrameType.STOPPED), 0, None), "")
    assert said[0][0] is Reason.PROCESS_KILLED


def test_a_second_message_for_the_same_job_finds_nothing_to_do(start: Start) -> None:
    running = start("good")
    job = running.ended()
    running.slots.train(job.id)
    assert running.job().attempt == 1


def test_cancelled_is_written_when_the_process_is_gone(
    start: Start, database: Database, until_running: Callable[[Running], None]
) -> None:
    running = start("obedient")
    until_running(running)
    process = running.process()
    with database.write() as session:
        job = jobs.request_cancel(session, running.job_id)
        assert job is not None
        assert job.state == State.STOPPING
    job = running.ended()
    assert (job.state, job.reason) == (State.CANCELLED, Reason.USER_REQUEST)
    assert not process.is_running()


def test_a_trainer_deaf_to_sigterm_is_killed_with_its_whole_group(
    start: Start,
    database: Database,
    until_running: Callable[[Running], None],
    wait_until: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.tasks.GRACE_S", 0.3)
    running = start("deaf")
    until_running(running)
    process = running.process()
    wait_until(lambda: len(process.children()) == 1, timeout_s=10)
    group = [process, *process.children()]
    with database.write() as session:
        jobs.request_cancel(session, running.job_id)
    assert running.ended().state == State.CANCELLED
    assert not any(member.is_running() for member in group)


def test_a_killed_trainer_fails_the_job_with_process_killed(
    start: Start, until_running: Callable[[Running], None]
) -> None:
    running = start("obedient")
    until_running(running)
    os.kill(running.process().pid, signal.SIGKILL)
    job = running.ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.PROCESS_KILLED)
    assert "SIGKILL" in (job.message or "")


def test_a_crash_without_a_word_quotes_the_end_of_the_log(start: Start) -> None:
    job = start("crash").ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
    assert "exit code 3" in (job.message or "")
    assert "the last words" in (job.message or "")
    assert job.step == 10


def test_bytes_that_are_no_frames_end_the_job_and_its_process(start: Start) -> None:
    job = start("garbage").ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)


def test_a_fenced_attempt_stops_its_process_and_writes_nothing_more(
    start: Start, database: Database, until_running: Callable[[Running], None]
) -> None:
    running = start("endless")
    until_running(running)
    process = running.process()
    with database.write() as session:  # another attempt takes over
        session.execute(update(Job).values(attempt=2))
        last = session.query(StepBlockRow).count()
    job = running.ended()
    assert not process.is_running()
    assert (job.state, job.attempt) == (State.RUNNING, 2)
    with database.read() as session:
        assert session.query(StepBlockRow).count() == last


def test_a_worker_that_shuts_down_says_so_and_leaves_no_process(
    start: Start, until_running: Callable[[Running], None]
) -> None:
    running = start("obedient")
    until_running(running)
    process = running.process()
    running.slots.shutting_down.set()
    job = running.ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.WORKER_SHUTDOWN)
    assert not process.is_running()


def test_many_messages_for_one_job_run_it_once(database: Database, tmp_path: Path) -> None:
    standby = Standby(tmp_path / "logs", (sys.executable, str(SCRIPT), "good"))
    slots = Slots(database, WORKER, tmp_path, standby)
    with database.write() as session:
        job_id = jobs.create(session, SPEC).id
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(slots.train, [job_id] * 4))
        standby.close()
    with database.read() as session:
        job = jobs.get(session, job_id)
    assert job is not None
    assert (job.attempt, job.state) == (1, State.SUCCEEDED)


def test_an_end_without_a_signal_or_a_log_is_still_explained() -> None:
    reason, message = unexplained(7, "")
    assert reason is Reason.INTERNAL_ERROR
    assert "exit code 7" in message

"""A worker that runs one job and ends; tests/chaos/test_job_workers.py runs whole processes."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from typer.testing import CliRunner

from ampspec.jobs import State
from server.cli.app import app as server_commands
from store import allocations, workers
from store.access import projects
from store.clock import from_now
from store.database import Database
from store.gangs import gangs
from store.jobs import attempts, jobs
from store.tables import Allocation, Job
from tests.waiting import DEADLINE_S, join, wait_until
from tests.worker.conftest import program
from worker import app
from worker.context import WorkerContext
from worker.one_job import JobWorker, NotRun
from worker.settings import WorkerSettings
from worker.slots import Slots
from worker.trainer.standby import Standby
from worker.work_dirs import WorkDirs

ROOT = Path(__file__).parents[2]
NO_REDIS = "redis://127.0.0.1:1"


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite is enough: tests/store has the claims on both databases."""
    return sqlite_url


class Running:
    """A worker for one job, in a thread."""

    def __init__(self, worker: JobWorker, context: WorkerContext) -> None:
        self.context, self._worker = context, worker
        self.exit_code: int | None = None
        self.reason = ""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.exit_code = self._worker.run()
        except NotRun as reason:
            self.reason = str(reason)

    def wait(self) -> int | None:
        join(self._thread)
        return self.exit_code


StartWorker = Callable[..., Running]


@pytest.fixture
def start_worker(
    database_url: str,
    tmp_path: Path,
    make_context: Callable[..., WorkerContext],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[StartWorker]:
    """Starts a worker for one job, whose trainers follow a script."""
    monkeypatch.setattr(app, "adopt_orphans", lambda: None)  # this process is not a worker
    started: list[Running] = []

    def start(
        job_id: str, script: str = "good", *, wait_s: float = 3600, slots: int = 1
    ) -> Running:
        name = f"w{len(started)}"
        settings = WorkerSettings(
            database_url=database_url,
            redis_url=NO_REDIS,
            data_dir=tmp_path / "data",
            worker_job=job_id,
            worker_job_wait_s=wait_s,
            worker_slots=slots,
        )
        context = make_context(
            script,
            worker_id=name,
            database=Database(database_url),
            work_dirs=WorkDirs(tmp_path / name, name),
            slots=Slots(slots),
            standby=Standby(program(script)),
        )
        started.append(Running(JobWorker(context, settings, job_id), context))
        return started[-1]

    yield start
    for running in started:
        running.context.shutting_down.set()
        running.wait()


@pytest.fixture
def state_of(database: Database) -> Callable[[Job], str]:
    def read(job: Job) -> str:
        with database.read() as session:
            row = jobs.get(session, job.id)
            assert row is not None
            return row.state

    return read


def test_the_job_is_run_and_the_worker_ends(
    start_worker: StartWorker, make_job: Callable[..., Any], state_of: Callable[[Job], str]
) -> None:
    first, job = make_job(), make_job()
    assert start_worker(job.id).wait() == 0
    assert (state_of(first), state_of(job)) == (State.QUEUED, State.SUCCEEDED)


def test_a_failed_attempt_is_recorded_and_the_worker_ends_with_0(
    start_worker: StartWorker, make_job: Callable[..., Any], database: Database
) -> None:
    job = make_job()
    assert start_worker(job.id, "crash").wait() == 0
    with database.read() as session:
        [attempt] = attempts.listing(session, job.id)
    assert attempt.outcome == "failed"


def test_the_worker_waits_until_the_quota_allows_the_job(
    start_worker: StartWorker, make_job: Callable[..., Any], database: Database
) -> None:
    with database.write() as session:
        projects.update(session, "small", {"max_running": 1})
    make_job(State.RUNNING, project="small")
    job = make_job(project="small")
    impatient = start_worker(job.id, wait_s=0)
    assert impatient.wait() is None
    assert "quota of 1 running job" in impatient.reason
    assert impatient.reason.endswith("The worker has waited for 0 s.")
    patient = start_worker(job.id)
    wait_until(lambda: _is_registered(database, "w1"), "it is registered")
    with database.write() as session:
        projects.update(session, "small", {"max_running": 2})
    assert patient.wait() == 0


def test_a_job_that_is_paused_while_the_worker_waits_ends_it(
    start_worker: StartWorker,
    make_job: Callable[..., Any],
    database: Database,
) -> None:
    job = make_job()
    _delay(database, job)
    running = start_worker(job.id)
    wait_until(lambda: _is_registered(database, "w0"), "it is registered")
    with database.write() as session:
        assert jobs.request_pause(session, job.id)
    assert running.wait() is None
    assert running.reason == f"The job '{job.id}' is paused; resume it first."


def test_a_worker_that_is_drained_while_it_waits_ends_with_0(
    start_worker: StartWorker, make_job: Callable[..., Any], database: Database
) -> None:
    job = make_job()
    _delay(database, job)
    running = start_worker(job.id)
    running.context.shutting_down.set()
    assert running.wait() == 0


def test_ranks_are_run_on_the_workers_of_their_job_and_end_them(
    start_worker: StartWorker, make_job: Callable[..., Any], database: Database
) -> None:
    with database.write() as session:
        fields: dict[str, Any] = {"hostname": "h", "pid": 1, "version": "1"}
        workers.register(session, "plain", slots=4, queues=["default"], **fields)
        workers.heartbeat(session, "plain", hardware={"gang_host": "127.0.0.1"})
    other_gang, job = (make_job(runtime={"workers": 2, "devices": 1}) for _ in range(2))
    running = [start_worker(job.id, "ranks_succeed") for _ in range(2)]

    def place() -> bool:
        with database.write() as session:
            placed = {reservation.job_id for reservation in gangs.place(session)}
        assert other_gang.id not in placed
        return job.id in placed

    wait_until(place, "the ranks are reserved")
    assert [worker.wait() for worker in running] == [0, 0]
    with database.read() as session:
        ended = jobs.get(session, job.id)
        assert ended is not None
        assert (ended.state, ended.worker_id) == (State.SUCCEEDED, "w0")


def test_ranks_that_are_abandoned_after_an_unexpected_error_end_the_worker_with_1(
    start_worker: StartWorker,
    make_job: Callable[..., Any],
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: Any) -> bool:
        raise RuntimeError("nobody expects this")

    monkeypatch.setattr("worker.gangs.gang_runner._Member.run", fail)
    job = make_job(runtime={"workers": 1, "devices": 2})
    running = start_worker(job.id, "ranks_succeed", slots=2)

    def place() -> bool:
        with database.write() as session:
            return job.id in {reservation.job_id for reservation in gangs.place(session)}

    wait_until(place, "the ranks are reserved")
    assert running.wait() == 1


def test_a_worker_on_which_nothing_is_reserved_gives_up(
    start_worker: StartWorker, make_job: Callable[..., Any]
) -> None:
    job = make_job(runtime={"workers": 2, "devices": 1})
    running = start_worker(job.id, "ranks_succeed", wait_s=0)
    assert running.wait() is None
    assert f"No ranks of the job '{job.id}' are reserved on this worker." in running.reason


def test_a_worker_that_comes_too_late_for_its_ranks_does_not_fail(
    start_worker: StartWorker, make_job: Callable[..., Any]
) -> None:
    """Else Kubernetes would end the pods of the ranks that train, since one of the job failed."""
    job = make_job(State.RUNNING, runtime={"workers": 2, "devices": 1})
    assert start_worker(job.id, "ranks_succeed", wait_s=0).wait() == 0
    alone = start_worker(make_job(State.RUNNING).id, wait_s=0)
    assert alone.wait() is None
    assert "is running on another worker" in alone.reason


def test_the_allocation_says_why_its_worker_did_not_run_the_job(
    start_worker: StartWorker, make_job: Callable[..., Any], database: Database
) -> None:
    """The batch system shows no more than an exit code."""
    job = make_job(State.PAUSED)
    with database.write() as session:
        fields: dict[str, Any] = {"attempt": 1, "number": 1, "queue": "q", "engine": "slurm"}
        session.add(Allocation(name="a", job_id=job.id, state="RUNNING", **fields))
    running = start_worker(job.id)
    assert running.wait() is None
    with database.read() as session:
        [allocation] = allocations.of_job(session, job.id)
    assert allocation.worker_message == running.reason


def test_a_process_whose_job_cannot_be_run_says_why_and_exits_with_3(
    database_url: str, tmp_path: Path, make_job: Callable[..., Any]
) -> None:
    """tests/store/test_claim_by_id.py has the other reasons."""
    job = make_job(State.CANCELLED)
    environment = {
        **os.environ,
        "AMPCORE_DATABASE_URL": database_url,
        "AMPCORE_REDIS_URL": NO_REDIS,
        "AMPCORE_DATA_DIR": str(tmp_path / "data"),
        "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT)),
    }
    command = [sys.executable, "-m", "server", "worker", "--job", job.id]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 3, done.stderr
    assert f"The job '{job.id}' has ended: it is cancelled." in done.stderr.splitlines()


def _delay(database: Database, job: Job) -> None:
    """Let the next attempt at a job start in an hour."""
    with database.write() as session:
        statement = update(Job).where(Job.id == job.id).values(not_before=from_now(3600))
        session.execute(statement)


def _is_registered(database: Database, worker_id: str) -> bool:
    with database.read() as session:
        return workers.get(session, worker_id) is not None


def test_an_empty_id_of_a_job_is_refused() -> None:
    """Fails if it starts a worker that runs the jobs of all queues."""
    result = CliRunner().invoke(server_commands, ["worker", "--job", " "])
    assert result.exit_code == 2
    assert "expected the id of a job, received an empty one" in " ".join(result.output.split())

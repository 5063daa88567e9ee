"""A whole worker process: real Celery, real Redis, a real trainer."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from celery import Celery

from ampspec.jobs import Reason, State
from infra.celery_names import TASK_NAME, queue_key
from store import workers
from store.database import Database
from store.jobs import attempts, jobs
from store.tables import Worker
from tests.processes import command_of, has_ended, name_of
from tests.waiting import DEADLINE_S, wait_until
from worker.trainer.child.fork_server import SERVER_NAME, TRAINER_NAME


class Process:
    """`python -m worker`, and its row in the table of workers."""

    def __init__(self, database: Database, environment: dict[str, str], log: Path) -> None:
        self.database, self.log_file = database, log
        with log.open("wb") as output:
            program = [sys.executable, "-m", "worker"]
            self.process = subprocess.Popen(
                program, env=os.environ | environment, stdout=output, stderr=output
            )

    def row(self) -> tuple[Worker, str] | None:
        with self.database.read() as session:
            return next(iter(workers.listing(session)), None)

    def is_online(self) -> bool:
        row = self.row()
        return row is not None and row[1] == "online"

    def state_of(self, job_id: str) -> str:
        with self.database.read() as session:
            job = jobs.get(session, job_id)
            assert job is not None
            return job.state

    def lines(self) -> list[dict[str, Any]]:
        # Celery prints a line at the end that is not JSON.
        lines = self.log_file.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


@contextmanager
def online_worker(database: Database, environment: dict[str, str], log: Path) -> Iterator[Process]:
    """A worker that has registered; it is killed at the end."""
    worker = Process(database, environment, log)
    try:
        wait_until(worker.is_online, "the worker is online")
        yield worker
    finally:
        worker.process.kill()
        worker.process.wait()


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone: tests/chaos runs whole workers on PostgreSQL."""
    return sqlite_url


@pytest.fixture
def worker(
    database: Database,
    database_url: str,
    redis_url: str,
    tmp_path: Path,
) -> Iterator[Process]:
    environment = {
        "AMPCORE_DATABASE_URL": database_url,
        "AMPCORE_REDIS_URL": redis_url,
        "AMPCORE_DATA_DIR": str(tmp_path / "data"),
        "AMPCORE_WORKER_QUEUES": "default,night",
    }
    with online_worker(database, environment, tmp_path / "worker.log") as worker:
        yield worker


def send_job_message(redis_url: str, queue: str) -> None:
    with Celery(broker=redis_url, set_as_current=False) as celery:
        celery.send_task(TASK_NAME, args=["any"], queue=queue_key(queue), ignore_result=True)


@pytest.mark.slow
def test_a_message_in_any_queue_runs_its_job_and_a_drain_ends_the_worker(
    worker: Process, redis_url: str, make_job: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    job = make_job(train={"steps": 3}, runtime={"queue": "night", "engine": "graph"})
    send_job_message(redis_url, "night")
    wait_until(lambda: worker.state_of(job.id) == State.SUCCEEDED)
    row = worker.row()
    assert row is not None
    assert row[0].queues == ["default", "night"]
    wait_until(lambda: worker.row()[0].usage["steps_total"] == 3)  # type: ignore[index]
    with worker.database.write() as session:
        workers.request_drain(session, row[0].id)
    assert worker.process.wait(DEADLINE_S) == 0
    assert worker.row()[1] == "stopped"  # type: ignore[index]
    assert list((worker.log_file.parent / "data" / "scratch").iterdir()) == []
    about = [line for line in worker.lines() if line.get("job_id") == job.id]
    assert {line["attempt"] for line in about} == {1}


def test_trainers_die_with_a_killed_worker(worker: Process, wait_until: Callable[..., Any]) -> None:
    started = psutil.Process(worker.process.pid)

    def has_fork_server() -> bool:
        return any(
            "worker.trainer.child.trainer_process" in command_of(child)
            for child in started.children()
        )

    wait_until(has_fork_server)
    children = started.children(recursive=True)
    worker.process.send_signal(signal.SIGKILL)
    wait_until(lambda: all(map(has_ended, children)))


def test_an_invalid_setting_is_exit_code_2() -> None:
    environment = {**os.environ, "AMPCORE_DATABASE_URL": ""}
    done = subprocess.run(
        [sys.executable, "-m", "worker"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "AMPCORE_DATABASE_URL" in done.stderr


@pytest.mark.slow
def test_a_killed_fork_server_ends_its_trainers_and_is_restarted(
    worker: Process, redis_url: str, make_job: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    """The worker adopts orphaned trainers and reaps them."""

    def server() -> list[psutil.Process]:
        children = psutil.Process(worker.process.pid).children()
        return [child for child in children if name_of(child) == SERVER_NAME]

    job = make_job(train={"steps": 1_000_000}, runtime={"engine": "graph"})
    send_job_message(redis_url, "default")
    wait_until(lambda: worker.state_of(job.id) == State.RUNNING)
    (first,) = server()
    trainers = first.children()
    assert TRAINER_NAME in map(name_of, trainers)
    first.kill()
    wait_until(lambda: worker.state_of(job.id) == State.QUEUED)
    with worker.database.read() as session:
        (attempt,) = attempts.listing(session, job.id)
    assert attempt.reason == Reason.PROCESS_KILLED
    wait_until(server)
    wait_until(lambda: not any(trainer.is_running() for trainer in trainers))
    started = psutil.Process(worker.process.pid)
    wait_until(lambda: not any(map(has_ended, started.children())), "no zombie stays")


def test_every_line_of_output_is_json_until_the_end(sqlite_url, redis_url, tmp_path):
    environment = {
        **os.environ,
        "AMPCORE_DATABASE_URL": sqlite_url,
        "AMPCORE_REDIS_URL": redis_url,
        "AMPCORE_DATA_DIR": str(tmp_path / "data"),
        "AMPCORE_LOG_FORMAT": "json",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "worker"], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as worker:  # fmt: skip
        records = map(json.loads, worker.stdout)
        assert any("ready" in record["message"] for record in records)
        worker.terminate()
        assert "the worker stops" in [record["message"] for record in records]
    assert worker.returncode == 0

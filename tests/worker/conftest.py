"""Attempts at jobs, on a real database, with real child processes that follow a script."""

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import update

from ampcore.fork_server import TRAINER_NAME
from service.bells import Bell
from service.storage import Storage
from store import artifacts, events, jobs, steps
from store import logs as stored_logs
from store.database import Database
from store.tables import Artifact, EventRow, Job
from tests.processes import children_of, command_of, name_of
from tests.waiting import join
from worker.scratch import Scratch
from worker.standby import Standby
from worker.tasks import work
from worker.workshop import Workshop

SCRIPT = Path(__file__).with_name("scripted_trainer.py")
WORKER = "w0"


def program(script: str) -> tuple[str, ...]:
    return (sys.executable, "-u", str(SCRIPT), script)


def fork_servers() -> list[psutil.Process]:
    """Those of scripted trainers that this process has started."""
    return [child for child in psutil.Process().children() if SCRIPT.name in command_of(child)]


def scripted_trainers() -> list[psutil.Process]:
    """The oldest one first."""
    trainers = [trainer for server in fork_servers() for trainer in children_of(server)]
    return sorted(trainers, key=lambda trainer: (trainer.create_time(), trainer.pid))


@dataclass
class Running:
    """A worker with one slot, at work on the jobs that are there."""

    shop: Workshop
    database: Database
    job_id: str

    def start(self) -> "Running":
        self._thread = threading.Thread(target=work, args=[self.shop])
        self._thread.start()
        return self

    def job(self) -> Job:
        with self.database.read() as session:
            job = jobs.get(session, self.job_id)
            assert job is not None
            return job

    def process(self) -> psutil.Process:
        """The trainer that runs the job, which its name tells from one that stands by."""
        (trainer,) = (one for one in scripted_trainers() if name_of(one) == TRAINER_NAME)
        return trainer

    def ask(self, request: Callable[..., Any]) -> None:
        with self.database.write() as session:
            assert request(session, self.job_id) is not None

    def take_away(self) -> None:
        """Another attempt takes over."""
        with self.database.write() as session:
            session.execute(update(Job).values(attempt=Job.attempt + 1))

    def steps(self) -> list[int]:
        with self.database.read() as session:
            reading = steps.read(session, self.job_id, start=0, end=None, limit=1000)
        return [int(step) for step in reading.block["step"]]

    def events(self, kind: str) -> list[EventRow]:
        with self.database.read() as session:
            rows = events.read(session, self.job_id, after=0, limit=1000)
        return [row for row in rows if row.type == kind]

    def states(self) -> list[str]:
        return [row.data["state"] for row in self.events("state")]

    def files(self) -> list[Artifact]:
        with self.database.read() as session:
            return list(artifacts.listing(session, self.job_id))

    def log(self, stream: str = "stdout") -> str:
        with self.database.read() as session:
            rows = stored_logs.read(session, self.job_id, after=0, limit=1000)
        return "".join(row.text for row in rows if row.stream == stream)

    def ended(self) -> Job:
        join(self._thread)
        return self.job()


Start = Callable[..., Running]


@pytest.fixture
def make_shop(database: Database, tmp_path: Path) -> Iterator[Callable[..., Workshop]]:
    """A worker's means, with a trainer that follows the named script."""
    shops: list[Workshop] = []

    def make(script: str, **parts: Any) -> Workshop:
        given = {
            "worker_id": WORKER,
            "queues": ("default",),
            "database": database,
            "storage": Storage((tmp_path / "artifacts").as_uri()),
            "scratch": Scratch(tmp_path / "scratch", WORKER),
            "standby": Standby(program(script)),
            "data_root": tmp_path / "datasets",
            "bell": Bell("redis://127.0.0.1:1"),
            "memory_events": None,
            "lease_s": 4.0,
        }
        shops.append(Workshop(**{**given, **parts}))
        return shops[-1]

    yield make
    for shop in shops:
        shop.shutting_down.set()
        shop.standby.close()


@pytest.fixture
def start(
    make_shop: Callable[..., Workshop], make_job: Callable[..., Any], database: Database
) -> Iterator[Start]:
    """Run a job with a trainer that follows the named script."""
    begun: list[Running] = []

    def run(
        script: str, *, runtime: dict[str, Any] | None = None, job: Job | None = None, **parts: Any
    ) -> Running:
        job = job or make_job(runtime={"max_attempts": 1, **(runtime or {})})
        running = Running(make_shop(script, **parts), database, job.id)
        begun.append(running.start())
        return running

    yield run
    for running in begun:
        running.shop.shutting_down.set()
        running.ended()
        running.shop.standby.close()
    assert fork_servers() == []


@pytest.fixture
def until_running(wait_until: Callable[..., None]) -> Callable[[Running], None]:
    def wait(running: Running) -> None:
        wait_until(lambda: running.job().step >= 10, "the job runs")

    return wait

"""Run attempts on a real database, with real trainer processes that follow a script."""

import hashlib
import io
import sys
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import update

from ampspec.references.stored_files import FileKind
from infra.notify import Notifier
from infra.storage import Storage
from store.database import Database
from store.files import artifacts, project_files
from store.files.project_files import STORAGE_FOLDER, FileKey
from store.jobs import jobs
from store.tables import Artifact, EventRow, Job
from store.telemetry import events, steps
from store.telemetry import logs as stored_logs
from tests.processes import children_of, command_of, name_of
from tests.waiting import join
from worker.context import WorkerContext
from worker.tasks import run_queued_jobs
from worker.trainer.child.fork_server import TRAINER_NAME
from worker.trainer.standby import Standby
from worker.transfer.download_cache import DownloadCache
from worker.work_dirs import WorkDirs

SCRIPT = Path(__file__).with_name("scripted_trainer.py")
WORKER = "w0"


def program(script: str) -> tuple[str, ...]:
    return (sys.executable, "-u", str(SCRIPT), script)


def fork_servers() -> list[psutil.Process]:
    """The fork servers of scripted trainers that this process has started."""
    return [child for child in psutil.Process().children() if str(SCRIPT) in command_of(child)]


def scripted_trainers() -> list[psutil.Process]:
    """The scripted trainers, the oldest first."""
    trainers = [trainer for server in fork_servers() for trainer in children_of(server)]
    return sorted(trainers, key=lambda trainer: (trainer.create_time(), trainer.pid))


@dataclass
class Running:
    """A worker with one slot that runs the queued jobs in a thread."""

    context: WorkerContext
    database: Database
    job_id: str

    def start(self) -> "Running":
        self._thread = threading.Thread(target=run_queued_jobs, args=[self.context])
        self._thread.start()
        return self

    def job(self) -> Job:
        with self.database.read() as session:
            job = jobs.get(session, self.job_id)
            assert job is not None
            return job

    def process(self) -> psutil.Process:
        """The trainer that runs the job; its process name differs from a standby's."""
        (trainer,) = (
            process for process in scripted_trainers() if name_of(process) == TRAINER_NAME
        )
        return trainer

    def ask(self, request: Callable[..., Any]) -> None:
        with self.database.write() as session:
            assert request(session, self.job_id) is not None

    def fence(self) -> None:
        """Let another attempt own the job."""
        with self.database.write() as session:
            session.execute(update(Job).values(attempt=Job.attempt + 1))

    def steps(self) -> list[int]:
        with self.database.read() as session:
            reading = steps.read(session, self.job_id, start=0, end=None, limit=1000)
        return [int(step) for step in reading.block["step"]]

    def events(self, kind: str) -> list[EventRow]:
        with self.database.read() as session:
            rows = events.read(session, self.job_id, after_seq=0, limit=1000)
        return [row for row in rows if row.type == kind]

    def states(self) -> list[str]:
        return [row.data["state"] for row in self.events("state")]

    def files(self) -> list[Artifact]:
        with self.database.read() as session:
            return list(artifacts.listing(session, self.job_id))

    def log(self, stream: str = "stdout") -> str:
        with self.database.read() as session:
            rows = stored_logs.read(session, self.job_id, after_seq=0, limit=1000)
        return "".join(row.text for row in rows if row.stream == stream)

    def ended(self) -> Job:
        join(self._thread)
        return self.job()


Start = Callable[..., Running]


@pytest.fixture
def make_context(database: Database, tmp_path: Path) -> Iterator[Callable[..., WorkerContext]]:
    """Makes a WorkerContext whose trainers follow the named script."""
    contexts: list[WorkerContext] = []

    def make(script: str, **parts: Any) -> WorkerContext:
        options = {
            "worker_id": WORKER,
            "queues": ("default",),
            "database": database,
            "storage": Storage((tmp_path / "artifacts").as_uri()),
            "work_dirs": WorkDirs(tmp_path / "scratch", WORKER),
            "standby": Standby(program(script)),
            "data_root": tmp_path / "datasets",
            "download_cache": DownloadCache(tmp_path / "scratch" / "dataset-cache"),
            "notifier": Notifier("redis://127.0.0.1:1"),
            "memory_events": None,
            "lease_s": 4.0,
        }
        contexts.append(WorkerContext(**{**options, **parts}))
        return contexts[-1]

    yield make
    for context in contexts:
        context.shutting_down.set()
        context.standby.close()


@pytest.fixture
def start(
    make_context: Callable[..., WorkerContext], make_job: Callable[..., Any], database: Database
) -> Iterator[Start]:
    """Runs a job with a trainer that follows the named script."""
    started: list[Running] = []

    def run(
        script: str, *, runtime: dict[str, Any] | None = None, job: Job | None = None, **parts: Any
    ) -> Running:
        job = job or make_job(runtime={"max_attempts": 1, **(runtime or {})})
        running = Running(make_context(script, **parts), database, job.id)
        started.append(running.start())
        return running

    yield run
    for running in started:
        running.context.shutting_down.set()
        running.ended()
        running.context.standby.close()
    assert fork_servers() == []


@pytest.fixture
def until_running(wait_until: Callable[..., None]) -> Callable[[Running], None]:
    def wait(running: Running) -> None:
        wait_until(lambda: running.job().step >= 10, "the job runs")

    return wait


def bundle_archive(
    files: Iterable[tuple[str, str]] = (("net.py", "code"), ("parts/layer.py", "more")),
) -> bytes:
    """A bundle of these files, each a name and a text."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as target:
        for name, text in files:
            target.writestr(name, text)
    return content.getvalue()


@pytest.fixture
def make_bundle_job(
    database: Database, make_job: Callable[..., Any], tmp_path: Path
) -> Callable[..., Job]:
    """Creates a job whose bundle is stored, as after its upload."""

    def make(storage: Storage, content: bytes | None = None, project: str = "default") -> Job:
        content = bundle_archive() if content is None else content
        key = FileKey(project, FileKind.BUNDLE, hashlib.sha256(content).hexdigest())
        file, path = tmp_path / "bundle.zip", project_files.storage_path(key)
        file.write_bytes(content)
        size, _ = storage.put(STORAGE_FOLDER, path, file)
        file.unlink()
        with database.write() as session:
            project_files.add(session, key, path=path, size_bytes=size, created_by=None)
        model = {"kind": "bundle", "bundle": f"sha256:{key.sha256}"}
        job: Job = make_job(model=model, runtime={"max_attempts": 1})
        return job

    return make

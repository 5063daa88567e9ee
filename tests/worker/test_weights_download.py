"""The weights that a job starts from are fetched for its first step, and never for a later one."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from ampspec.jobs import Reason, State
from ampspec.references.stored_files import FileKind
from infra.storage import Storage
from store.database import Database
from store.files import artifacts, project_files
from store.files.project_files import STORAGE_FOLDER, FileKey
from store.tables import Job
from tests.worker.conftest import Running, Start

DIGEST = hashlib.sha256(b"uploaded").hexdigest()


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One kind of database is enough: the queries are simple."""
    return sqlite_url


@pytest.fixture
def source(start: Start) -> str:
    """The id of a succeeded job with stored weights."""
    job = start("good").ended()
    assert job.state == State.SUCCEEDED
    return job.id


@pytest.fixture
def uploaded(database: Database, tmp_path: Path) -> str:
    """The reference of a file of weights in the project."""
    key = FileKey("default", FileKind.WEIGHTS, DIGEST)
    file = tmp_path / "uploaded"
    file.write_bytes(b"uploaded")
    with database.write() as session:
        path = project_files.storage_path(key)
        project_files.add(session, key, path=path, size_bytes=8, created_by=None)
    Storage((tmp_path / "artifacts").as_uri()).put(STORAGE_FOLDER, path, file)
    return f"sha256:{DIGEST}"


def run(start: Start, make_job: Callable[..., Any], init: dict[str, Any]) -> Running:
    job = make_job(init=init, runtime={"max_attempts": 1})
    running = start("reads_weights", job=job)
    running.ended()
    return running


def test_the_weights_of_a_job_are_stored_beside_its_model(
    start: Start, source: str, database: Database
) -> None:
    running = Running(start("good").context, database, source)
    stored = {file.kind: file.path for file in running.files()}
    assert stored["weights"] == "attempt-1/weights.safetensors"


def test_a_trainer_gets_the_weights_of_another_job(
    start: Start, make_job: Callable[..., Any], source: str
) -> None:
    running = run(start, make_job, {"job": source})
    assert running.job().state == State.SUCCEEDED
    assert "init: weights\n" in running.log()


def test_a_trainer_gets_an_uploaded_file(
    start: Start, make_job: Callable[..., Any], uploaded: str
) -> None:
    assert "init: uploaded\n" in run(start, make_job, {"weights": uploaded}).log()


def test_a_job_without_initial_weights_gets_none(
    start: Start, make_job: Callable[..., Any]
) -> None:
    running = start("reads_weights", job=make_job())
    running.ended()
    assert "init: None\n" in running.log()


@pytest.mark.parametrize("init", [{"job": "0123456789ab"}, {"weights": f"sha256:{'0' * 64}"}])
def test_weights_that_were_deleted_fail_the_job_for_good(
    start: Start, make_job: Callable[..., Any], init: dict[str, str]
) -> None:
    running = start("good", job=make_job(init=init, runtime={"max_attempts": 3}))
    job = running.ended()
    assert (job.state, job.reason, job.attempt) == (State.FAILED, Reason.INVALID_WEIGHTS, 1)
    assert "which were deleted" in (job.message or "")


@pytest.mark.parametrize("damage", ["removed", "changed"])
def test_weights_whose_stored_file_is_lost_fail_the_job_for_good(
    start: Start, make_job: Callable[..., Any], source: str, tmp_path: Path, damage: str
) -> None:
    file = tmp_path / "artifacts" / source / "attempt-1" / "weights.safetensors"
    if damage == "removed":
        file.unlink()
    else:
        file.write_text("other bytes")
    job = run(start, make_job, {"job": source}).job()
    assert (job.state, job.reason) == (State.FAILED, Reason.INVALID_WEIGHTS)
    assert f"starts from the weights of job {source}" in (job.message or "")


def test_a_later_attempt_resumes_without_the_source(
    start: Start, make_job: Callable[..., Any], source: str, database: Database
) -> None:
    running = run(start, make_job, {"job": source})
    with database.write() as session:
        artifacts.forget(session, source, ["attempt-1/weights.safetensors"])
        again = update(Job).where(Job.id == running.job_id)
        session.execute(again.values(state=State.QUEUED))
    Running(running.context, database, running.job_id).start().ended()
    assert running.job().state == State.SUCCEEDED
    assert running.log().endswith("init: None\n")

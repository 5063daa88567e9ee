"""Jobs with a bundle: its download, its extraction, and what their trainers see."""

import pytest

from ampspec.jobs import State
from store.files.project_files import STORAGE_FOLDER
from store.tables import ProjectFile
from tests.worker import test_sandbox
from tests.worker.conftest import bundle_archive, program
from worker.trainer.standby import Standby
from worker.transfer.download_cache import FOLDER, DownloadCache


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: both databases are tested without processes elsewhere."""
    return sqlite_url


protected_data, plan = test_sandbox.protected_data, test_sandbox.plan


@pytest.fixture
def storage(protected_data):
    return protected_data.storage


@pytest.fixture
def run(start, protected_data, plan):
    """Runs a job with custom code in a sandbox of each kind."""

    def run(job, script="reads_bundle"):
        return start(
            script,
            job=job,
            storage=protected_data.storage,
            standby=Standby(program(script)),
            work_dirs=protected_data.work_dirs,
            data_root=protected_data.data / "datasets",
            download_cache=DownloadCache(protected_data.data / "scratch" / FOLDER),
            sandbox_plan=plan,
        )

    return run


def test_a_trainer_gets_the_folder_with_its_code_and_cannot_change_it(
    run, storage, make_bundle_job
):
    running = run(make_bundle_job(storage))
    job = running.ended()
    assert job.state == State.SUCCEEDED, (job.message, running.log("stderr"))
    printed = running.log().splitlines()[1:]
    assert printed == ["net.py code", "parts/layer.py more"]


def test_a_job_without_a_bundle_gets_no_folder(start):
    running = start("has_no_bundle")
    assert running.ended().state == State.SUCCEEDED
    assert running.log().splitlines()[-1] == "False"


def test_a_bundle_is_downloaded_once_for_several_jobs(
    run, make_bundle_job, storage, monkeypatch, make_job
):
    job = make_bundle_job(storage)
    again = make_job(model=job.spec["model"], runtime={"max_attempts": 1})
    assert run(job).ended().state == State.SUCCEEDED
    fetched = []
    monkeypatch.setattr(type(storage), "fetch", lambda *arguments: fetched.append(arguments))
    assert run(again).ended().state == State.SUCCEEDED
    assert fetched == []


def test_a_bundle_of_another_project_is_not_found(run, make_bundle_job, storage, database):
    from store.access import projects

    with database.write() as session:
        projects.ensure(session, "vision")
    job = run(make_bundle_job(storage, project="vision")).ended()
    assert (job.state, job.reason, job.failures) == (State.FAILED, "invalid_spec", 1)
    assert "The project has no bundle sha256:" in job.message


def test_a_file_that_is_no_archive_fails_with_the_reason(run, make_bundle_job, storage):
    job = run(make_bundle_job(storage, content=b"text")).ended()
    assert (job.state, job.reason) == (State.FAILED, "invalid_spec")
    assert "cannot be extracted" in job.message
    assert "zip archive" in job.message


def test_a_hostile_archive_writes_nothing_outside_of_its_folder(
    run, make_bundle_job, storage, tmp_path
):
    content = bundle_archive([("../../../escaped.py", "x")])
    job = run(make_bundle_job(storage, content=content)).ended()
    assert (job.state, job.reason) == (State.FAILED, "invalid_spec")
    assert list(tmp_path.rglob("escaped.py")) == []


def test_a_bundle_whose_bytes_have_changed_is_not_used(run, make_bundle_job, storage, database):
    job = make_bundle_job(storage)
    with database.read() as session:
        path = session.query(ProjectFile).one().path
    [file] = [storage.local_file(STORAGE_FOLDER, path)]
    file.chmod(0o600)
    file.write_bytes(file.read_bytes().replace(b"code", b"evil"))
    ended = run(job).ended()
    assert ended.state == State.FAILED
    assert "expected SHA-256" in ended.message

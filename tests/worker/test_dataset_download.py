"""Jobs that name a dataset: its download, and what their trainers can do with it."""

import hashlib

import pytest

from ampspec.jobs import State
from infra.storage import Storage
from store.files import datasets
from store.files.datasets import STORAGE_FOLDER, Description, StoredDataset
from store.jobs import jobs
from store.tables import DatasetVersion
from tests.worker import test_isolation
from tests.worker.conftest import program
from tests.worker.test_isolation import KINDS
from worker.trainer.isolation import TrainerFolder
from worker.trainer.standby import Standby
from worker.transfer.dataset_download import JobDataset, place_dataset
from worker.transfer.download_cache import FOLDER, CachedFile, DownloadCache

DATA = {"kind": "text", "dataset": "poems@1"}


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: both databases are tested without processes elsewhere."""
    return sqlite_url


data = test_isolation.protected_data


@pytest.fixture
def publish(database, tmp_path):
    """Store a version of a dataset; returns its row."""

    def publish(storage, content="roses are red", name="poems"):
        file = tmp_path / "poems.txt"
        file.unlink(missing_ok=True)
        file.write_text(content)
        sha256 = hashlib.sha256(content.encode()).hexdigest()
        path = datasets.storage_path("default", sha256, "0123456789ab")
        size, _ = storage.put(STORAGE_FOLDER, path, file)
        with database.write() as session:
            stored = StoredDataset(path, "poems.txt", size, sha256)
            return datasets.add_version(
                session, "default", name, stored, Description(), created_by=None
            )

    return publish


@pytest.fixture
def make_dataset_job(make_job):
    def make():
        spec = {"model": {"kind": "lstm_lm"}, "data": DATA, "runtime": {"max_attempts": 1}}
        return make_job(**spec)

    return make


@pytest.mark.parametrize("kind", ["off", *KINDS])
def test_a_trainer_reads_its_dataset_and_cannot_change_that_of_others(
    kind, data, publish, start, make_dataset_job
):
    publish(data.storage)
    cache = data.data / "scratch" / FOLDER
    isolation = data.isolation(kind)
    running = start(
        "attacks_dataset",
        job=make_dataset_job(),
        storage=data.storage,
        standby=Standby(program("attacks_dataset"), isolation),
        work_dirs=data.work_dirs,
        data_root=data.data / "datasets",
        download_cache=DownloadCache(cache),
        isolation=isolation,
    )
    job = running.ended()
    assert job.state == State.SUCCEEDED, (job.message, running.log("stderr"))
    first, *could = running.log().splitlines()[1:]
    assert first == "poems@1 poems.txt roses are red"
    if kind != "off":
        [file] = cache.glob("*/content")
        assert file.read_text() == "roses are red"
        assert file.stat().st_mode & 0o777 == 0o444
        assert "could list the cache" not in could


def test_a_dataset_is_downloaded_once_for_several_jobs(
    start, publish, make_dataset_job, tmp_path, monkeypatch
):
    running = start("reads_dataset", job=make_job_later(publish, make_dataset_job, tmp_path))
    assert running.ended().state == State.SUCCEEDED
    fetched = []
    storage = running.context.storage
    monkeypatch.setattr(type(storage), "fetch", lambda *arguments: fetched.append(arguments))
    again = start("reads_dataset", job=make_dataset_job(), storage=storage)
    assert again.ended().state == State.SUCCEEDED
    assert "poems@1 poems.txt roses are red" in again.log()
    assert fetched == []


def make_job_later(publish, make_dataset_job, tmp_path):
    publish(Storage((tmp_path / "artifacts").as_uri()))
    return make_dataset_job()


@pytest.mark.parametrize("copied", [0, OSError("not between these file systems")])
def test_a_dataset_is_copied_where_the_kernel_cannot_do_it(copied, tmp_path, monkeypatch):
    def copy_file_range(*_):
        if copied:
            raise copied
        return copied

    monkeypatch.setattr("os.copy_file_range", copy_file_range)
    (tmp_path / "content").write_text("roses are red")
    trainer = TrainerFolder(tmp_path / "trainer", confinement=None)
    trainer.path.mkdir()
    cached = CachedFile(tmp_path / "content", -1)
    placed = place_dataset(JobDataset("poems@1", "poems.txt", cached), trainer, tmp_path)
    assert placed.read_text() == "roses are red"


def test_a_job_whose_dataset_was_deleted_fails_once_with_the_reason(
    start, make_dataset_job, database
):
    job = start("reads_dataset", job=make_dataset_job()).ended()
    assert (job.state, job.reason, job.failures) == (State.FAILED, "invalid_data", 1)
    assert job.message == "The dataset poems@1 was deleted. Submit a job with another one."


def test_a_job_whose_file_is_missing_in_the_storage_fails_with_the_reason(
    start, publish, make_dataset_job, tmp_path
):
    storage = Storage((tmp_path / "artifacts").as_uri())
    version = publish(storage)
    storage.remove(STORAGE_FOLDER, [version.path])
    job = start("reads_dataset", job=make_dataset_job()).ended()
    assert (job.state, job.reason) == (State.FAILED, "invalid_data")
    assert job.message == "The storage has no file for the dataset poems@1."


def test_a_dataset_whose_bytes_have_changed_is_not_used(
    start, publish, make_dataset_job, database, tmp_path
):
    version = publish(Storage((tmp_path / "artifacts").as_uri()))
    with database.write() as session:
        key = (version.dataset_id, version.number)
        session.get_one(DatasetVersion, key).sha256 = "0" * 64
    running = start("reads_dataset", job=make_dataset_job())
    job = running.ended()
    assert job.state == State.FAILED
    assert f"expected SHA-256 {'0' * 64}" in job.message
    assert list((tmp_path / "scratch" / FOLDER).glob("*/content")) == []


def test_the_dataset_is_kept_in_the_cache_until_its_attempt_ends(
    start, publish, make_dataset_job, tmp_path, until_running
):
    running = start("waits_with_dataset", job=make_job_later(publish, make_dataset_job, tmp_path))
    until_running(running)
    cache = DownloadCache(tmp_path / "scratch" / FOLDER, 0)
    [file] = (tmp_path / "scratch" / FOLDER).glob("*/content")
    cache.acquire("f" * 64, 1, lambda new: new.write_bytes(b"x"), lambda _: True).close()
    assert file.exists()
    running.ask(jobs.request_cancel)
    assert running.ended().state == State.CANCELLED
    cache.acquire("e" * 64, 1, lambda new: new.write_bytes(b"x"), lambda _: True).close()
    assert not file.exists()

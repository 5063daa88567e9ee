"""Jobs that name an object of a store: its download, its version, and what goes wrong."""

import hashlib
import threading

import boto3
import pytest

from ampspec.jobs import State
from ampspec.references.object_url import ObjectUrl
from store.jobs import jobs
from tests.infra import conftest as service_conftest
from worker.transfer import object_download
from worker.transfer.data_object import DataObject
from worker.transfer.download_cache import FOLDER, DownloadCache

TEXT = b"roses are red"
MD5 = "d566ae832973a05839f03ec7cf9cc8d4"
s3_server = service_conftest.s3_server
s3_url = service_conftest.s3_url


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: both databases are tested without processes elsewhere."""
    return sqlite_url


class Object:
    """An object in the test's folder of the store."""

    def __init__(self, folder):
        self.prefix = ObjectUrl.parse_prefix(folder)
        self.url = f"{folder}/poems.txt"
        self._key = {"Bucket": "bucket", "Key": "/".join(ObjectUrl.parse(self.url).key)}
        self._client = boto3.client("s3")

    def put(self, content=TEXT):
        self._client.put_object(**self._key, Body=content)

    def delete(self):
        self._client.delete_object(**self._key)


@pytest.fixture
def stored(s3_url):
    """An object of 13 bytes in a real S3 server."""
    stored = Object(s3_url)
    stored.put()
    return stored


@pytest.fixture
def make_object_job(make_job, stored):
    def make():
        data = {"kind": "text", "path": stored.url}
        return make_job(model={"kind": "lstm_lm"}, data=data, runtime={"max_attempts": 1})

    return make


@pytest.fixture
def start_job(start, make_object_job, stored):
    """Runs a job on the object; the worker allows the object's prefix."""

    def start_job(script="reads_dataset", job=None, **parts):
        options = {"data_prefixes": (stored.prefix,), **parts}
        return start(script, job=job or make_object_job(), **options)

    return start_job


def test_a_trainer_reads_the_object_and_the_job_records_its_version(start_job, stored):
    running = start_job()
    job = running.ended()
    assert job.state == State.SUCCEEDED, job.message
    assert f"{stored.url} poems.txt roses are red" in running.log()
    [event] = running.events("data_fetched")
    assert event.data == {
        "url": stored.url,
        "etag": MD5,
        "size_bytes": len(TEXT),
        "sha256": hashlib.sha256(TEXT).hexdigest(),
    }


def test_an_object_is_downloaded_once_for_several_jobs(start_job, monkeypatch):
    assert start_job().ended().state == State.SUCCEEDED
    monkeypatch.setattr(DataObject, "read", lambda *_: pytest.fail("downloaded again"))
    again = start_job()
    assert again.ended().state == State.SUCCEEDED
    assert len(again.events("data_fetched")) == 1


def paused(start_job, until_running):
    running = start_job("waits_with_dataset")
    until_running(running)
    running.ask(jobs.request_pause)
    assert running.ended().state == State.PAUSED
    running.ask(jobs.resume)
    return running


def test_a_job_resumes_with_the_same_object(start_job, until_running):
    paused_run = paused(start_job, until_running)
    resumed = start_job(job=paused_run.job())
    assert resumed.ended().state == State.SUCCEEDED
    assert len(resumed.events("data_fetched")) == 1


def test_a_job_whose_object_has_changed_fails_once_with_both_versions(
    start_job, stored, until_running
):
    paused_run = paused(start_job, until_running)
    stored.put(b"violets are blue")
    job = start_job(job=paused_run.job()).ended()
    assert (job.state, job.reason, job.failures) == (State.FAILED, "invalid_data", 1)
    etag = paused_run.events("data_fetched")[0].data["etag"]
    assert job.message.startswith(
        f"{stored.url} has changed since this job first read it: expected ETag {etag}, 13 bytes; "
        "received ETag "
    )


def test_an_object_that_does_not_exist_is_named(start_job, stored):
    stored.delete()
    job = start_job().ended()
    assert (job.state, job.reason) == (State.FAILED, "invalid_data")
    assert job.message == f"There is no object {stored.url}."


def test_a_worker_reads_only_below_its_own_prefixes(start_job, stored, monkeypatch):
    monkeypatch.setattr(DataObject, "version", lambda _: pytest.fail("reached the store"))
    job = start_job(data_prefixes=(ObjectUrl.parse_prefix("s3://other"),)).ended()
    assert (job.state, job.reason) == (State.FAILED, "invalid_data")
    assert job.message == f"This worker's AMPCORE_DATA_PREFIXES do not allow {stored.url}."


def test_an_object_larger_than_the_cache_is_refused(start_job, tmp_path):
    cache = DownloadCache(tmp_path / "small", 12)
    job = start_job(download_cache=cache).ended()
    assert job.reason == "invalid_data"
    assert job.message.endswith(
        "expected at most 12 bytes, the size of the worker's cache of datasets; received 13."
    )


def test_a_failed_request_is_repeated_without_the_pieces_before_it(start_job, stored, monkeypatch):
    monkeypatch.setattr(object_download, "PIECE_BYTES", 4)
    monkeypatch.setattr(object_download, "RETRY_DELAYS_S", (0.0, 0.0))
    asked, read = [], DataObject.read

    def fails_once(data, start, end):
        asked.append((start, end))
        if asked.count((4, 8)) == 1 and (start, end) == (4, 8):
            raise object_download.StorageFailed("the connection was reset")
        return read(data, start, end)

    monkeypatch.setattr(DataObject, "read", fails_once)
    running = start_job()
    assert running.ended().state == State.SUCCEEDED
    assert asked == [(0, 4), (4, 8), (4, 8), (8, 12), (12, 13)]
    assert "roses are red" in running.log()


def test_an_object_that_is_replaced_during_the_download_is_not_used(
    start_job, stored, monkeypatch, tmp_path
):
    read = DataObject.read

    def replaces(data, start, end):
        piece = read(data, start, end)
        stored.put(b"roses are RED")
        return piece

    monkeypatch.setattr(DataObject, "read", replaces)
    job = start_job().ended()
    assert job.state == State.FAILED
    assert f"{stored.url} was replaced while it was read." in job.message
    assert list((tmp_path / "scratch" / FOLDER).glob("*/content")) == []


def test_a_job_is_cancelled_during_the_download(start_job, monkeypatch, wait_until, tmp_path):
    monkeypatch.setattr(object_download, "PIECE_BYTES", 1)
    reading, go_on = threading.Event(), threading.Event()
    asked, read = [], DataObject.read

    def waits(data, start, end):
        asked.append(start)
        reading.set()
        wait_until(go_on.is_set, "the job is cancelled")
        return read(data, start, end)

    monkeypatch.setattr(DataObject, "read", waits)
    running = start_job()
    wait_until(reading.is_set, "the download runs")
    running.ask(jobs.request_cancel)
    assert running.ended().state == State.CANCELLED
    go_on.set()
    folder = tmp_path / "scratch" / FOLDER
    wait_until(lambda: not list(folder.glob("*/content")), "the download has ended")
    assert len(asked) <= 2


def test_progress_is_written_to_the_log_of_the_job(start_job, stored, monkeypatch):
    monkeypatch.setattr(object_download, "PROGRESS_S", 0.0)
    monkeypatch.setattr(object_download, "PIECE_BYTES", 8)
    running = start_job()
    running.ended()
    lines = running.log("stderr").splitlines()
    assert [line for line in lines if line.startswith("downloaded")] == [
        f"downloaded 0.0 of 0.0 MB of {stored.url}"
    ] * 2

"""The cache of datasets: one download for many jobs, bounded, and never deleted in use."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ampspec.references.object_url import ObjectUrl
from tests.waiting import DEADLINE_S, join, wait_until
from worker.transfer import download_cache
from worker.transfer.data_object import ObjectVersion
from worker.transfer.download_cache import (
    CONTENT,
    LOCK_SUFFIX,
    CacheWaitAbandoned,
    DownloadCache,
    content_name,
)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def take(folder):
    """Acquire a file of ten bytes; the names of downloads are recorded in `take.downloads`."""
    never = threading.Event()

    def take(name, max_bytes=30, fetch=None):
        def download(file):
            take.downloads.append(name)
            file.write_bytes(name.encode() * 10)

        cache = DownloadCache(folder, max_bytes)
        return cache.acquire(name, 10, fetch or download, never.wait)

    take.downloads = []
    return take


def cached(folder):
    return sorted(path.parent.name for path in folder.glob(f"*/{CONTENT}"))


def test_a_file_is_downloaded_once_and_cannot_be_written(take):
    for _ in range(2):
        file = take("a")
        assert file.path.read_bytes() == b"a" * 10
        assert file.path.stat().st_mode & 0o777 == 0o444
        file.close()
    assert take.downloads == ["a"]


def test_jobs_at_the_same_time_share_one_download(take):
    with ThreadPoolExecutor(4) as threads:
        files = list(threads.map(lambda _: take("a"), range(4)))
    assert take.downloads == ["a"]
    assert {file.path.read_bytes() for file in files} == {b"a" * 10}
    for file in files:
        file.close()


def test_the_least_recently_used_files_are_deleted_first(take, folder):
    for moment, name in enumerate("abc"):
        take(name).close()
        os.utime(folder / f"{name}{LOCK_SUFFIX}", (moment, moment))
    take("a").close()  # used again
    take("d").close()
    assert cached(folder) == ["a", "c", "d"]
    take("b").close()
    assert take.downloads == ["a", "b", "c", "d", "b"]
    assert not (folder / f"c{LOCK_SUFFIX}").exists()


def test_a_file_in_use_is_never_deleted(take, folder):
    used = take("a")
    for name in "bcde":
        take(name, max_bytes=20).close()
    assert cached(folder) == ["a", "e"]
    assert used.path.read_bytes() == b"a" * 10
    used.close()


def test_a_file_larger_than_the_cache_replaces_all_others(take, folder):
    take("a").close()
    take("b", max_bytes=5).close()
    assert cached(folder) == ["b"]


def test_a_running_download_counts_in_the_size(take, folder):
    begun, end = threading.Event(), threading.Event()

    def slow(file):
        begun.set()
        assert end.wait(DEADLINE_S)
        file.write_bytes(b"s" * 10)

    slow_job = threading.Thread(target=lambda: take("s", fetch=slow).close())
    slow_job.start()
    assert begun.wait(DEADLINE_S)
    for name in "ab":
        take(name, max_bytes=20).close()
    assert cached(folder) == ["b"]
    end.set()
    join(slow_job)
    assert cached(folder) == ["b", "s"]


def test_a_failed_download_leaves_nothing(take, folder):
    def fail(file):
        file.write_bytes(b"half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        take("a", fetch=fail)
    assert not (folder / "a").exists()
    take("a").close()


def test_an_incomplete_file_is_downloaded_again(take, folder):
    (folder / "a").mkdir(parents=True)
    (folder / "a" / CONTENT).write_bytes(b"half")
    file = take("a")
    assert file.path.read_bytes() == b"a" * 10
    file.close()


def test_a_job_that_ends_stops_waiting_for_the_download_of_another(take, folder):
    begun, end, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(file):
        begun.set()
        assert end.wait(DEADLINE_S)
        file.write_bytes(b"a" * 10)

    downloading = threading.Thread(target=lambda: take("a", fetch=slow).close())
    downloading.start()
    assert begun.wait(DEADLINE_S)
    ended.set()
    with pytest.raises(CacheWaitAbandoned):
        DownloadCache(folder).acquire("a", 10, pytest.fail, ended.wait)
    end.set()
    join(downloading)


def test_a_killed_worker_holds_no_file(take, folder):
    program = (
        "import sys, threading; from pathlib import Path\n"
        "from worker.transfer.download_cache import *\n"
        "cache = DownloadCache(Path(sys.argv[1]))\n"
        "cache.acquire('a', 10, lambda f: f.write_bytes(b'a' * 10), threading.Event().wait)\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout.readline() == b"ready\n"
        take("b", max_bytes=10).close()
        assert cached(folder) == ["a", "b"]
        process.send_signal(signal.SIGKILL)
    take("c", max_bytes=10).close()
    assert cached(folder) == ["c"]


def test_a_lock_file_that_is_deleted_meanwhile_is_not_used(take, folder, monkeypatch):
    take("a").close()
    opened = []
    real_try = download_cache._try_lock

    def delete_then_lock(lock, kind):
        if not opened:
            opened.append(lock)
            (folder / f"a{LOCK_SUFFIX}").unlink()
        return real_try(lock, kind)

    monkeypatch.setattr(download_cache, "_try_lock", delete_then_lock)
    file = take("a")
    assert (folder / f"a{LOCK_SUFFIX}").exists()
    wait_until(lambda: file.path.read_bytes() == b"a" * 10, "the file is there")
    file.close()


def test_no_file_has_the_name_of_an_object_in_a_store():
    """Before, an uploaded text whose SHA-256 was that of an object's version took its place."""
    url = ObjectUrl.parse("s3://bucket/poems.txt")
    version = ObjectVersion("an etag", 30)
    uploaded = f"{url}\n{version.etag}\n{version.size_bytes}".encode()
    sha256 = hashlib.sha256(uploaded).hexdigest()
    assert sha256 in version.cache_name(url)
    assert version.cache_name(url) != content_name(sha256)
    assert sha256 not in (version.cache_name(url), content_name(sha256))

import hashlib
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from infra.storage import (
    FileDamaged,
    FileNotStored,
    PathInvalid,
    Storage,
    StorageFailed,
    check_path,
)
from infra.storage_check import StorageCheck
from tests.processes import free_port
from tests.tables import every_row
from tests.waiting import DEADLINE_S

JOB = "0123456789ab"
PATH = "attempt-1/checkpoints/step-7.npz"
BYTES = bytes(range(256)) * 20_000  # 5 MB: more than one chunk of either storage
SHA256 = hashlib.sha256(BYTES).hexdigest()


@pytest.fixture(params=["file", "s3"])
def storage(request, tmp_path):
    """An empty storage; the test runs once on each kind."""
    if request.param == "s3":
        return Storage(request.getfixturevalue("s3_url"))
    return Storage((tmp_path / "with blank").as_uri())


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(BYTES)
    return file


def read_all(storage, path=PATH, size=None):
    return b"".join(storage.read(JOB, path, 0, len(BYTES) if size is None else size))


def test_a_stored_file_is_read_back(storage, file):
    assert storage.put(JOB, PATH, file) == (len(BYTES), SHA256)
    assert read_all(storage) == BYTES
    assert file.read_bytes() == BYTES


@every_row("name", ["ü %2e*?[a].npz", "..hidden", "a b/#c&d=e"])
def test_a_path_may_have_any_character_of_a_file_name(storage, file, name):
    storage.put(JOB, name, file)
    assert read_all(storage, name) == BYTES
    storage.remove(JOB, [name])
    with pytest.raises(FileNotStored):
        read_all(storage, name)


def test_an_empty_file_is_stored_and_read_back(storage, tmp_path):
    (tmp_path / "empty").touch()
    assert storage.put(JOB, PATH, tmp_path / "empty") == (0, hashlib.sha256().hexdigest())
    assert read_all(storage, size=0) == b""


@every_row(("start", "end"), [(0, 1), (4_999_999, 5_000_001), (5_119_999, 5_120_000)])
def test_only_the_range_is_read(storage, file, start, end):
    storage.put(JOB, PATH, file)
    assert b"".join(storage.read(JOB, PATH, start, end)) == BYTES[start:end]


def test_a_file_is_replaced_as_a_whole(storage, file, tmp_path):
    storage.put(JOB, PATH, file)
    (tmp_path / "other").write_bytes(b"other")
    storage.put(JOB, PATH, tmp_path / "other")
    assert read_all(storage, size=5) == b"other"
    assert file.read_bytes() == BYTES


def test_a_fetched_file_has_the_bytes_that_were_put(storage, file, tmp_path):
    storage.put(JOB, PATH, file)
    storage.fetch(JOB, PATH, tmp_path / "fetched", SHA256)
    assert (tmp_path / "fetched").read_bytes() == BYTES


def test_a_file_whose_bytes_have_changed_is_not_fetched(storage, file, tmp_path):
    storage.put(JOB, PATH, file)
    files = set(tmp_path.iterdir())
    with pytest.raises(FileDamaged, match=f"expected SHA-256 {'0' * 64}, received {SHA256}"):
        storage.fetch(JOB, PATH, tmp_path / "fetched", "0" * 64)
    assert set(tmp_path.iterdir()) == files


def test_reading_a_missing_file_fails_at_once(storage, tmp_path, file):
    storage.put(JOB, "other", file)
    with pytest.raises(FileNotStored, match="nothing could not be read"):
        storage.read(JOB, "nothing", 0, 1)
    with pytest.raises(FileNotStored):
        storage.fetch(JOB, "nothing", tmp_path / "fetched", SHA256)


def test_reading_beyond_the_end_of_a_file_fails(storage, file):
    storage.put(JOB, PATH, file)
    with pytest.raises(FileDamaged, match="10 bytes too short"):
        read_all(storage, size=len(BYTES) + 10)


def test_removing_files_keeps_the_others_and_ignores_missing_ones(storage, file):
    storage.put(JOB, "a/1", file)
    storage.put(JOB, "a/2", file)
    storage.remove(JOB, ["a/1", "a/none", "none/at/all"])
    with pytest.raises(FileNotStored):
        read_all(storage, "a/1")
    assert read_all(storage, "a/2") == BYTES


def test_removing_a_job_removes_only_its_files(storage, file):
    storage.put(JOB, "a/1", file)
    storage.put("other", "a/1", file)
    storage.remove_folder(JOB)
    storage.remove_folder(JOB)
    with pytest.raises(FileNotStored):
        read_all(storage, "a/1")
    assert b"".join(storage.read("other", "a/1", 0, 4)) == BYTES[:4]


# ---- Paths stay in the folder of their job


@every_row(
    "path",
    [
        "", ".", "..", "../x", "a/../b", "a/..", "/etc/passwd", "a//b", "a/", "a/./b",
        "a\\..\\b", "a\0b", "a\nb", "a\x7fb", "a\x85b", "a\ud800b", "x" * 501,
    ],
)  # fmt: skip
def test_a_path_that_could_leave_the_folder_is_refused(storage, file, path):
    with pytest.raises(PathInvalid):
        check_path(path)
    with pytest.raises(PathInvalid):
        storage.put(JOB, path, file)
    with pytest.raises(PathInvalid):
        storage.read(JOB, path, 0, 1)


@every_row("job_id", ["", "..", "a/b", "*", "x" * 65])
def test_an_invalid_job_id_is_refused(storage, job_id):
    with pytest.raises(PathInvalid):
        storage.remove_folder(job_id)


@pytest.fixture
def outside(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    return outside


@pytest.fixture
def folder(tmp_path):
    """The folder of a storage with the folder of a job in it."""
    folder = tmp_path / "root"
    (folder / JOB).mkdir(parents=True)
    return folder


@pytest.mark.parametrize("path", ["link/secret", "file-link"])
def test_a_symlink_in_the_folder_of_a_job_is_not_followed(folder, outside, file, path):
    storage = Storage(folder.as_uri())
    (folder / JOB / "link").symlink_to(outside)
    (folder / JOB / "file-link").symlink_to(outside / "secret")
    with pytest.raises(StorageFailed):
        storage.read(JOB, path, 0, 6)
    if "/" in path:
        with pytest.raises(StorageFailed):
            storage.put(JOB, path, file)
        with pytest.raises(StorageFailed):
            storage.remove(JOB, [path])
    storage.remove_folder(JOB)
    assert (outside / "secret").read_bytes() == b"secret"


def test_a_symlink_in_place_of_the_folder_of_a_job_is_not_followed(folder, outside):
    (folder / "linked").symlink_to(outside)
    with pytest.raises(StorageFailed):
        Storage(folder.as_uri()).remove_folder("linked")
    assert (outside / "secret").exists()


def test_only_regular_files_are_stored(folder, outside, tmp_path):
    storage = Storage(folder.as_uri())
    (tmp_path / "link").symlink_to(outside / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "outside"):
        with pytest.raises(StorageFailed):
            storage.put(JOB, PATH, tmp_path / name)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


# ---- Atomic writes


def test_a_file_on_the_same_file_system_is_linked(folder, file):
    Storage(folder.as_uri()).put(JOB, PATH, file)
    assert (folder / JOB / PATH).samefile(file)


def test_a_file_on_another_file_system_is_copied(folder, file, monkeypatch):
    def refuse(*_, **__):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    storage = Storage(folder.as_uri())
    assert storage.put(JOB, PATH, file) == (len(BYTES), SHA256)
    assert not (folder / JOB / PATH).samefile(file)
    assert read_all(storage) == BYTES


def test_a_full_disk_keeps_the_old_file_and_leaves_no_partial_one(
    folder, file, tmp_path, monkeypatch
):
    storage = Storage(folder.as_uri())
    (tmp_path / "old").write_bytes(b"old")
    storage.put(JOB, PATH, tmp_path / "old")

    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageFailed, match=f"{PATH} could not be stored: No space left"):
        storage.put(JOB, PATH, file)
    assert read_all(storage, size=3) == b"old"
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["step-7.npz"]


def test_a_reader_that_stops_early_leaves_no_file_open(folder, file):
    storage = Storage(folder.as_uri())
    storage.put(JOB, PATH, file)
    pieces = storage.read(JOB, PATH, 0, len(BYTES))
    assert len(open_below(folder)) == 1
    next(pieces)
    pieces.close()
    assert open_below(folder) == []


def open_below(folder):
    """The files in a folder that this process has open; others may come and go meanwhile."""
    targets = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed in between
            targets.append(os.readlink(f"/proc/self/fd/{number}"))
    return [name for name in targets if name.startswith(f"{folder}/")]


# ---- Unavailable and unknown storages


def test_an_unavailable_storage_is_not_reported_as_a_missing_file(s3_url, monkeypatch, file):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(StorageFailed) as caught:
        Storage(s3_url).put(JOB, PATH, file)
    assert not isinstance(caught.value, FileNotStored)
    assert "hush-hush" not in str(caught.value)


def test_an_unknown_storage_scheme_is_an_error(file):
    with pytest.raises(StorageFailed, match=r"could not be stored: .*nosuch"):
        Storage("nosuch://place").put(JOB, PATH, file)


def run(script):
    """What a script prints in its own process."""
    root = Path(__file__).parents[2]
    return subprocess.check_output([sys.executable, "-c", script], cwd=root, text=True)


def test_the_error_names_a_missing_library():
    output = run(
        "import sys; sys.modules['s3fs'] = None\n"
        "from infra.storage import Storage, StorageFailed\n"
        "try: Storage('s3://bucket').remove_folder('x')\n"
        "except StorageFailed as error: print(error)"
    )
    assert "s3fs" in output


def test_storage_libraries_are_loaded_only_when_they_are_used(tmp_path):
    output = run(
        "import sys; from infra.storage import Storage; Storage('s3://bucket');"
        f"Storage({tmp_path.as_uri()!r}).remove_folder('x');"
        "print(*(name for name in ('fsspec', 's3fs', 'aiobotocore') if name in sys.modules))"
    )
    assert output.strip() == ""


# ---- Progress and checks


def test_the_progress_of_an_upload_ends_with_all_of_its_bytes(storage, file, tmp_path):
    reports = []
    os.utime(file)
    storage.put(JOB, PATH, file, on_progress=reports.append)
    assert reports == sorted(reports)
    assert reports[-1:] in ([], [len(BYTES)])  # a hard link has no progress
    assert read_all(storage) == BYTES


def test_a_storage_that_works_passes_its_check_and_keeps_nothing(storage, tmp_path):
    storage.check()
    assert list(tmp_path.rglob("storage-checks/*")) == []


def test_folders_are_created_where_a_store_has_real_ones(tmp_path, file):
    """As with SFTP; fsspec's local file system has the same rules."""
    storage = Storage(f"local://{tmp_path}")
    storage.check()
    assert storage.put(JOB, PATH, file) == (len(BYTES), SHA256)
    assert read_all(storage) == BYTES
    with pytest.raises(StorageFailed, match="No such file or directory"):
        Storage(f"local://{tmp_path}/missing").check()


def test_the_check_of_a_missing_bucket_fails(s3_url):
    with pytest.raises(StorageFailed, match="the storage of artifacts cannot be used"):
        Storage("s3://no-such-bucket/folder").check()


def test_the_check_reads_back_what_it_stored(tmp_path, monkeypatch):
    storage = Storage(tmp_path.as_uri())
    monkeypatch.setattr("infra.folder_store.FolderStore.read", lambda *_: iter([b"something else"]))
    with pytest.raises(StorageFailed, match="read back with other bytes"):
        storage.check()


def test_a_storage_that_stops_answering_cannot_be_used(tmp_path, monkeypatch, wait_until):
    """Fails if the last answer counts for as long as the check hangs."""
    may_go_on, checks = threading.Event(), []

    def check(_):
        checks.append(1)
        assert len(checks) == 1 or may_go_on.wait(DEADLINE_S)

    monkeypatch.setattr(Storage, "check", check)
    monkeypatch.setattr("infra.storage_check.ANSWER_S", 0.05)
    storage_check = StorageCheck(Storage(tmp_path.as_uri()), every_s=0.01)
    storage_check.start()
    error = wait_until(lambda: storage_check.error)
    assert error == "the storage of artifacts has not answered for 0.05 s."
    may_go_on.set()
    wait_until(lambda: storage_check.error is None)
    storage_check.stop()


def test_an_unexpected_error_of_a_check_is_logged_and_not_shown(tmp_path, monkeypatch, caplog):
    """Anyone may read the error at `/readyz`."""

    def check(_):
        raise ValueError("secret")

    monkeypatch.setattr(Storage, "check", check)
    storage_check = StorageCheck(Storage(tmp_path.as_uri()))
    storage_check.start()
    error = storage_check.last_error(DEADLINE_S)
    storage_check.stop()
    assert error == "the storage of artifacts cannot be used: ValueError."
    assert "ValueError: secret" in caplog.text

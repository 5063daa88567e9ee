import hashlib
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from service.storage import (
    FileDamaged,
    FileNotStored,
    PathInvalid,
    Storage,
    StorageFailed,
    check_path,
)
from tests.processes import free_port

JOB = "0123456789ab"
PATH = "attempt-1/checkpoints/step-7.npz"
BYTES = bytes(range(256)) * 20_000  # 5 MB: more than one piece of either storage
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


def whole(storage, path=PATH, size=None):
    return b"".join(storage.read(JOB, path, 0, len(BYTES) if size is None else size))


def test_what_was_put_is_read_back(storage, file):
    assert storage.put(JOB, PATH, file) == (len(BYTES), SHA256)
    assert whole(storage) == BYTES
    assert file.read_bytes() == BYTES


@pytest.mark.parametrize("name", ["ü %2e*?[a].npz", "..hidden", "a b/#c&d=e"])
def test_a_path_may_hold_what_a_file_name_may(storage, file, name):
    storage.put(JOB, name, file)
    assert whole(storage, name) == BYTES
    storage.remove(JOB, [name])
    with pytest.raises(FileNotStored):
        whole(storage, name)


def test_an_empty_file_is_a_file(storage, tmp_path):
    (tmp_path / "empty").touch()
    assert storage.put(JOB, PATH, tmp_path / "empty") == (0, hashlib.sha256().hexdigest())
    assert whole(storage, size=0) == b""


@pytest.mark.parametrize(("start", "end"), [(0, 1), (4_999_999, 5_000_001), (5_119_999, 5_120_000)])
def test_only_the_range_is_read(storage, file, start, end):
    storage.put(JOB, PATH, file)
    assert b"".join(storage.read(JOB, PATH, start, end)) == BYTES[start:end]


def test_a_file_is_replaced_as_a_whole(storage, file, tmp_path):
    storage.put(JOB, PATH, file)
    (tmp_path / "other").write_bytes(b"other")
    storage.put(JOB, PATH, tmp_path / "other")
    assert whole(storage, size=5) == b"other"
    assert file.read_bytes() == BYTES


def test_a_fetched_file_has_the_bytes_that_were_put(storage, file, tmp_path):
    storage.put(JOB, PATH, file)
    storage.fetch(JOB, PATH, tmp_path / "fetched", SHA256)
    assert (tmp_path / "fetched").read_bytes() == BYTES


def test_a_file_whose_bytes_have_changed_is_not_fetched(storage, file, tmp_path):
    storage.put(JOB, PATH, file)
    before = set(tmp_path.iterdir())
    with pytest.raises(FileDamaged, match=f"expected SHA-256 {'0' * 64}, received {SHA256}"):
        storage.fetch(JOB, PATH, tmp_path / "fetched", "0" * 64)
    assert set(tmp_path.iterdir()) == before


def test_what_is_not_there_is_said_at_once(storage, tmp_path, file):
    storage.put(JOB, "other", file)
    with pytest.raises(FileNotStored, match="nothing could not be read"):
        storage.read(JOB, "nothing", 0, 1)
    with pytest.raises(FileNotStored):
        storage.fetch(JOB, "nothing", tmp_path / "fetched", SHA256)


def test_a_file_that_is_too_short_is_no_whole_answer(storage, file):
    storage.put(JOB, PATH, file)
    with pytest.raises(FileDamaged, match="10 bytes too short"):
        whole(storage, size=len(BYTES) + 10)


def test_removing_leaves_the_others_and_forgives_what_is_gone(storage, file):
    storage.put(JOB, "a/1", file)
    storage.put(JOB, "a/2", file)
    storage.remove(JOB, ["a/1", "a/none", "none/at/all"])
    with pytest.raises(FileNotStored):
        whole(storage, "a/1")
    assert whole(storage, "a/2") == BYTES


def test_a_job_goes_with_all_its_files_and_no_others(storage, file):
    storage.put(JOB, "a/1", file)
    storage.put("other", "a/1", file)
    storage.remove_job(JOB)
    storage.remove_job(JOB)
    with pytest.raises(FileNotStored):
        whole(storage, "a/1")
    assert b"".join(storage.read("other", "a/1", 0, 4)) == BYTES[:4]


# ---- Names stay in the folder of their job


@pytest.mark.parametrize(
    "path",
    [
        "", ".", "..", "../x", "a/../b", "a/..", "/etc/passwd", "a//b", "a/", "a/./b",
        "a\\..\\b", "a\0b", "a\nb", "a\x7fb", "a\x85b", "a\ud800b", "x" * 501,
    ],
)  # fmt: skip
def test_a_path_that_could_lead_out_is_refused(storage, file, path):
    with pytest.raises(PathInvalid):
        check_path(path)
    with pytest.raises(PathInvalid):
        storage.put(JOB, path, file)
    with pytest.raises(PathInvalid):
        storage.read(JOB, path, 0, 1)


@pytest.mark.parametrize("job_id", ["", "..", "a/b", "*", "x" * 65])
def test_a_job_that_is_none_is_refused(storage, job_id):
    with pytest.raises(PathInvalid):
        storage.remove_job(job_id)


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
def test_a_link_in_the_folder_leads_nowhere(folder, outside, file, path):
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
    storage.remove_job(JOB)
    assert (outside / "secret").read_bytes() == b"secret"


def test_a_link_in_the_place_of_a_job_is_not_followed(folder, outside):
    (folder / "linked").symlink_to(outside)
    with pytest.raises(StorageFailed):
        Storage(folder.as_uri()).remove_job("linked")
    assert (outside / "secret").exists()


def test_what_is_no_plain_file_is_not_stored(folder, outside, tmp_path):
    storage = Storage(folder.as_uri())
    (tmp_path / "link").symlink_to(outside / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "outside"):
        with pytest.raises(StorageFailed):
            storage.put(JOB, PATH, tmp_path / name)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


# ---- Whole or not at all


def test_on_one_file_system_nothing_is_copied(folder, file):
    Storage(folder.as_uri()).put(JOB, PATH, file)
    assert (folder / JOB / PATH).samefile(file)


def test_between_file_systems_the_bytes_are_copied(folder, file, monkeypatch):
    def refuse(*_, **__):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    storage = Storage(folder.as_uri())
    assert storage.put(JOB, PATH, file) == (len(BYTES), SHA256)
    assert not (folder / JOB / PATH).samefile(file)
    assert whole(storage) == BYTES


def test_a_full_disk_leaves_what_was_there_and_no_rest(folder, file, tmp_path, monkeypatch):
    storage = Storage(folder.as_uri())
    (tmp_path / "old").write_bytes(b"old")
    storage.put(JOB, PATH, tmp_path / "old")

    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageFailed, match=f"{PATH} could not be stored: No space left"):
        storage.put(JOB, PATH, file)
    assert whole(storage, size=3) == b"old"
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["step-7.npz"]


def test_a_reader_that_stops_early_leaves_nothing_open(folder, file):
    storage = Storage(folder.as_uri())
    storage.put(JOB, PATH, file)
    pieces = storage.read(JOB, PATH, 0, len(BYTES))
    assert len(open_below(folder)) == 1
    next(pieces)
    pieces.close()
    assert open_below(folder) == []


def open_below(folder):
    """The files in a folder that this process has open; others may come and go meanwhile."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed in between
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [name for name in found if name.startswith(f"{folder}/")]


# ---- Storages that do not answer


def test_a_store_that_is_away_is_no_file_that_is_missing(s3_url, monkeypatch, file):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(StorageFailed) as caught:
        Storage(s3_url).put(JOB, PATH, file)
    assert not isinstance(caught.value, FileNotStored)
    assert "hush-hush" not in str(caught.value)


def test_a_storage_that_nobody_knows_says_so(file):
    with pytest.raises(StorageFailed, match=r"could not be stored: .*nosuch"):
        Storage("nosuch://place").put(JOB, PATH, file)


def run(script):
    """What a script prints in a process of its own."""
    root = Path(__file__).parents[2]
    return subprocess.check_output([sys.executable, "-c", script], cwd=root, text=True)


def test_a_missing_library_is_named():
    told = run(
        "import sys; sys.modules['s3fs'] = None\n"
        "from service.storage import Storage, StorageFailed\n"
        "try: Storage('s3://bucket').remove_job('x')\n"
        "except StorageFailed as error: print(error)"
    )
    assert "s3fs" in told


def test_a_folder_needs_no_library_and_nothing_is_loaded_before_its_use(tmp_path):
    told = run(
        "import sys; from service.storage import Storage; Storage('s3://bucket');"
        f"Storage({tmp_path.as_uri()!r}).remove_job('x');"
        "print(*(name for name in ('fsspec', 's3fs', 'aiobotocore') if name in sys.modules))"
    )
    assert told.strip() == ""

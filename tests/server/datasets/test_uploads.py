"""Uploads below the routes: completing on both storages, races, and what is left behind."""

import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select, update

from ampspec.references.dataset_reference import VersionReference
from infra.storage import FileNotStored, Storage, StorageFailed
from server.background.cleanup import delete_expired_uploads
from server.datasets.assemble import FILE_NAME
from server.datasets.uploads import UploadKey, Uploads
from server.errors import Conflict, NotFound, PayloadTooLarge, RequestInvalid
from server.file_removal import remove_due_files
from server.http.receive_body import LEFTOVER_S, ReceivedBody, delete_leftovers
from store.access import projects
from store.access.audit import Actor
from store.clock import from_now
from store.files import datasets, file_removals
from store.files.dataset_uploads import NewUpload, folder_of
from store.files.datasets import STORAGE_FOLDER, Description
from store.tables import AuditEntry, DatasetUpload, FileRemoval
from tests.databases import ON_SQLITE
from tests.waiting import DEADLINE_S

ACTOR = Actor("default", "t", "ada", "127.0.0.1", None)
SIZE = 6_000_001
CONTENT = os.urandom(SIZE)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def storage(tmp_path):
    return Storage((tmp_path / "stored").as_uri())


@pytest.fixture
def uploads(database, storage, tmp_path):
    return make_uploads(database, storage, tmp_path)


def make_uploads(database, storage, tmp_path, describe=lambda file: Description()):
    return Uploads(database, storage, tmp_path / "work", 10_000_000, describe)


@pytest.fixture
def start(database):
    def start(uploads, name="birds", size=SIZE, sha256=None, file="b.npz"):
        with database.write() as session:
            row = uploads.start(session, "default", NewUpload(name, file, size, sha256), "ada")
        return UploadKey("default", name, row.id)

    return start


@pytest.fixture
def send(tmp_path):
    """Append bytes to an upload, as a request does."""

    def send(uploads, key, offset, content):
        file = tmp_path / f"body-{threading.get_ident()}-{offset}"
        file.write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
        return uploads.append(key, offset, ReceivedBody(file, len(content), sha256, is_whole=True))

    return send


@pytest.fixture
def upload(uploads, start, send):
    """Upload a file in one part; returns the version."""

    def upload(name="birds", content=b"abc", sha256=None):
        key = start(uploads, name, len(content), sha256)
        send(uploads, key, 0, content)
        return uploads.complete(key, ACTOR).version

    return upload


def stored_content(storage, version):
    return b"".join(storage.read(STORAGE_FOLDER, version.path, 0, version.size_bytes))


@pytest.fixture(params=["file", "s3"])
def any_storage(request, tmp_path):
    if request.param == "s3":
        return Storage(request.getfixturevalue("s3_url"))
    return Storage((tmp_path / "any").as_uri())


class TestOnBothStorages:
    @pytest.fixture
    def database_url(self, sqlite_url):
        """One kind of database is enough: this is about files."""
        return sqlite_url

    @pytest.mark.parametrize("cuts", [[], [1, 5_500_000]], ids=["one part", "three parts"])
    def test_the_parts_become_one_file_on_any_server(
        self, *, database, any_storage, tmp_path, start, send, cuts
    ):
        described = []

        def describe(file):
            described.append((file.name, file.read_bytes() == CONTENT))
            return Description("described", None, "npz", 7, [{"name": "x"}], {"rows": [["1"]]})

        servers = [
            make_uploads(database, any_storage, tmp_path / name, describe) for name in ("a", "b")
        ]
        key = start(servers[0], sha256=SHA256)
        for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(CONTENT)], strict=True)):
            row = send(servers[number % 2], key, begin, CONTENT[begin:end])
            assert row.offset_bytes == end
        version = servers[1].complete(key, ACTOR).version
        assert (version.number, version.sha256, version.rows) == (1, SHA256, 7)
        assert version.path.startswith(f"default/{SHA256}-")
        assert stored_content(any_storage, version) == CONTENT
        assert described == [("b.npz", True)]
        assert list((tmp_path / "b" / "work").iterdir()) == []
        remove_due_files(database, any_storage)
        for name, size, _ in row.parts:
            with pytest.raises(FileNotStored):
                b"".join(any_storage.read(folder_of(key.upload_id), name, 0, size))

    def test_a_changed_part_is_found(self, database, any_storage, tmp_path, start, send):
        uploads = make_uploads(database, any_storage, tmp_path)
        key = start(uploads, size=6)
        send(uploads, key, 0, b"abc")
        row = send(uploads, key, 3, b"def")
        (tmp_path / "other").write_bytes(b"xyz")
        any_storage.put(folder_of(key.upload_id), row.parts[0][0], tmp_path / "other")
        with pytest.raises(StorageFailed, match="has changed since it was stored"):
            uploads.complete(key, ACTOR)


@ON_SQLITE
def test_the_bytes_of_the_newest_version_create_no_second_one(database, uploads, upload, start):
    first = upload()
    again = upload()
    assert (again.number, again.path) == (1, first.path)
    known = uploads.get(start(uploads, size=3, sha256=first.sha256))
    assert (known.number, known.offset_bytes) == (1, 0)
    other_size = uploads.get(start(uploads, size=4, sha256=first.sha256))
    assert other_size.number is None


@ON_SQLITE
def test_equal_bytes_are_stored_once_per_project(storage, uploads, upload):
    first, changed, back, copy = upload(), upload(content=b"x"), upload(), upload("copy")
    assert [first.number, changed.number, back.number, copy.number] == [1, 2, 3, 1]
    assert first.path == back.path == copy.path != changed.path


@ON_SQLITE
def test_a_file_with_another_digest_is_refused_and_its_upload_deleted(
    database, storage, uploads, start, send
):
    key = start(uploads, size=3, sha256="0" * 64)
    row = send(uploads, key, 0, b"abc")
    with pytest.raises(RequestInvalid, match=f"Expected {'0' * 64}; received ba7816bf"):
        uploads.complete(key, ACTOR)
    with pytest.raises(NotFound):
        uploads.get(key)
    remove_due_files(database, storage)
    with pytest.raises(FileNotStored):
        storage.read(folder_of(key.upload_id), row.parts[0][0], 0, 3)


@ON_SQLITE
def test_an_upload_is_completed_only_with_all_of_its_bytes(uploads, start, send):
    key = start(uploads, size=3)
    with pytest.raises(Conflict, match="all 3 bytes of the file, received 0"):
        uploads.complete(key, ACTOR)
    send(uploads, key, 0, b"ab")
    with pytest.raises(Conflict, match="received 2 so far"):
        uploads.complete(key, ACTOR)


@ON_SQLITE
def test_an_empty_file_needs_no_part(storage, uploads, start):
    version = uploads.complete(start(uploads, size=0), ACTOR).version
    assert (version.size_bytes, version.sha256) == (0, hashlib.sha256().hexdigest())
    assert stored_content(storage, version) == b""


@ON_SQLITE
def test_a_file_of_several_parts_may_be_called_like_the_file_that_joins_them(uploads, start, send):
    file = FILE_NAME.lstrip(".")
    key = start(uploads, size=6, file=file)
    send(uploads, key, 0, b"abc")
    send(uploads, key, 3, b"def")
    assert uploads.complete(key, ACTOR).version.file_name == file


def test_of_two_requests_for_the_same_offset_one_is_refused_and_leaves_nothing(
    storage, uploads, start, send, tmp_path
):
    key = start(uploads, size=6)
    uploads.check_offset(key, 0)
    send(uploads, key, 0, b"abc")
    with pytest.raises(Conflict, match=r"Upload-Offset: 3, received 0"):
        send(uploads, key, 0, b"xyz!")
    with pytest.raises(Conflict):
        uploads.check_offset(key, 0)
    assert len(list((tmp_path / "stored" / folder_of(key.upload_id)).iterdir())) == 1
    send(uploads, key, 3, b"def")
    assert stored_content(storage, uploads.complete(key, ACTOR).version) == b"abcdef"


def test_concurrent_completions_create_one_version(database, uploads, start, send):
    key = start(uploads, size=3)
    send(uploads, key, 0, b"abc")
    barrier = threading.Barrier(4)

    def complete(_):
        barrier.wait(DEADLINE_S)
        return uploads.complete(key, ACTOR)

    with ThreadPoolExecutor(4) as threads:
        completed = list(threads.map(complete, range(4)))
    assert sorted(one.is_new for one in completed) == [False, False, False, True]
    assert {one.version.number for one in completed} == {1}
    with database.read() as session:
        [entry] = session.scalars(select(AuditEntry).where(AuditEntry.action == "dataset.upload"))
        assert (entry.target, entry.data["size_bytes"]) == ("birds@1", 3)


@ON_SQLITE
def test_a_shared_file_that_is_deleted_in_the_meantime_is_stored_again(
    *, database, storage, tmp_path, start, send, upload
):
    first = upload("other")

    def delete_other(file):
        with database.write() as session:
            versions = datasets.lock_for_deletion(session, "default", VersionReference("other"))
            paths = datasets.delete_versions(session, versions)
        storage.remove(STORAGE_FOLDER, paths)
        return Description()

    uploads = make_uploads(database, storage, tmp_path)
    real_store = uploads._store

    def store_then_delete(*arguments):
        uploads._store = real_store
        stored = real_store(*arguments)
        delete_other(None)
        return stored

    uploads._store = store_then_delete
    key = start(uploads, size=3)
    send(uploads, key, 0, b"abc")
    version = uploads.complete(key, ACTOR).version
    assert version.path != first.path
    assert stored_content(storage, version) == b"abc"


@ON_SQLITE
def test_a_file_whose_server_died_before_the_commit_is_deleted_later(
    *, database, storage, uploads, start, send, monkeypatch
):
    key = start(uploads, size=3)
    send(uploads, key, 0, b"abc")
    with monkeypatch.context() as patch:
        patch.setattr(uploads, "_create_version", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            uploads.complete(key, ACTOR)
    path = datasets.storage_path("default", hashlib.sha256(b"abc").hexdigest(), key.upload_id)
    assert b"".join(storage.read(STORAGE_FOLDER, path, 0, 3)) == b"abc"
    make_removals_due(database)
    with database.write() as session:
        session.execute(update(DatasetUpload).values(expires_at=from_now(-1.0)))
    delete_expired_uploads(database, storage)
    remove_due_files(database, storage)
    with pytest.raises(FileNotStored):
        storage.read(STORAGE_FOLDER, path, 0, 3)


@ON_SQLITE
def test_the_file_of_a_version_survives_the_scheduled_removal(database, storage, upload):
    version = upload()
    make_removals_due(database)
    remove_due_files(database, storage)
    assert stored_content(storage, version) == b"abc"
    with database.read() as session:
        assert file_removals.due(session) == []


def make_removals_due(database):
    with database.write() as session:
        session.execute(update(FileRemoval).values(due_at=from_now(-1.0)))


@ON_SQLITE
def test_expired_uploads_are_deleted_with_their_bytes(database, storage, uploads, start, send):
    key, kept = start(uploads, size=6), start(uploads, size=6)
    row = send(uploads, key, 0, b"abc")
    with database.write() as session:
        expired = update(DatasetUpload).where(DatasetUpload.id == key.upload_id)
        session.execute(expired.values(expires_at=from_now(-1.0)))
    delete_expired_uploads(database, storage)
    assert uploads.get(kept).offset_bytes == 0
    with pytest.raises(FileNotStored):
        storage.read(folder_of(key.upload_id), row.parts[0][0], 0, 3)
    with database.read() as session:
        assert session.get(DatasetUpload, key.upload_id) is None


@ON_SQLITE
def test_a_completed_upload_no_longer_counts_in_the_quota(database, uploads, upload, start):
    with database.write() as session:
        projects.update(session, "default", {"max_dataset_bytes": 5})
    upload()
    start(uploads, size=2)
    with pytest.raises(datasets.StorageQuotaReached):
        start(uploads, size=1)


@ON_SQLITE
def test_a_file_over_the_maximum_size_is_refused_at_the_start(uploads, start):
    with pytest.raises(PayloadTooLarge, match="at most 10000000 bytes"):
        start(uploads, size=10_000_001)


def test_only_old_leftovers_of_dead_servers_are_deleted(tmp_path):
    delete_leftovers(tmp_path / "none")
    for name in ("old.part", "new.part"):
        (tmp_path / name).touch()
    (tmp_path / "old-folder").mkdir()
    (tmp_path / "old-folder" / "file").touch()
    for name in ("old.part", "old-folder"):
        past = (tmp_path / name).stat().st_mtime - LEFTOVER_S - 60
        os.utime(tmp_path / name, (past, past))
    delete_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new.part"]

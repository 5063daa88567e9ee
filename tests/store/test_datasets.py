import threading

import pytest
from sqlalchemy import delete as delete_rows
from sqlalchemy import event
from sqlalchemy.exc import InvalidRequestError

from ampspec.jobs import State
from ampspec.references.dataset_reference import VersionReference
from store.access import projects
from store.clock import from_now
from store.files import dataset_uploads, datasets, file_removals
from store.files.dataset_uploads import MAX_OPEN, NewUpload, TooManyUploads
from store.files.datasets import STORAGE_FOLDER, Description, StorageQuotaReached, StoredDataset
from store.tables import DatasetUpload, Job
from tests.waiting import join

DESCRIBED = Description("described", None, "npz", 3, [{"name": "x"}], {"rows": [[1]]})


def stored(content="a", size_bytes=10):
    sha256 = content * 64
    return StoredDataset(f"default/{sha256}", "birds.npz", size_bytes, sha256)


@pytest.fixture
def add(database):
    """Add a version of a dataset; returns its number."""

    def add(name="birds", content="a", project="default", size_bytes=10):
        with database.write() as session:
            projects.ensure(session, project)
            datasets.lock_project(session, project)
            file = stored(content, size_bytes)
            return datasets.add_version(
                session, project, name, file, DESCRIBED, created_by="ada"
            ).number

    return add


@pytest.fixture
def find(database):
    def find(text, project="default"):
        with database.read() as session:
            return datasets.find(session, project, VersionReference.parse(text))

    return find


@pytest.fixture
def delete(database):
    """Delete versions, as the API does; returns the paths to delete."""

    def delete(text, project="default"):
        with database.write() as session:
            datasets.lock_project(session, project)
            reference = VersionReference.parse(text)
            versions = datasets.lock_for_deletion(session, project, reference)
            return datasets.delete_versions(session, versions)

    return delete


def test_versions_are_numbered_and_keep_what_is_known_about_them(add, find):
    assert [add(), add(content="b"), add("other")] == [1, 2, 1]
    newest, first = find("birds"), find("birds@1")
    assert (newest.number, first.number, newest.sha256[0]) == (2, 1, "b")
    assert {**vars(DESCRIBED)}.items() <= vars(first).items()
    assert (first.created_by, first.file_name, first.size_bytes) == ("ada", "birds.npz", 10)


def test_datasets_of_other_projects_are_not_found(add, find):
    add(project="vision")
    assert find("birds") is None
    assert find("birds", "vision").number == 1
    assert find("birds@2", "vision") is None


def test_the_number_of_a_deleted_version_is_not_used_again(add, find, delete):
    add()
    add(content="b")
    assert delete("birds") == [stored("a").path, stored("b").path]
    assert find("birds") is None
    assert add(content="c") == 3


def test_a_file_is_deleted_with_the_last_version_that_shares_it(add, delete):
    add()
    add("copy")
    assert delete("birds") == []
    assert delete("copy") == [stored("a").path]


def test_datasets_are_listed_by_name_with_sizes_and_newest_version(database, add, delete):
    for name in ("b", "a", "c"):
        add(name)
    add("a", "b", size_bytes=5)
    delete("c")
    with database.read() as session:
        rows = datasets.page(session, "default", limit=9)
        assert [(r.name, r.version_count, r.size_bytes, r.newest.number) for r in rows] == [
            ("a", 2, 15, 2),
            ("b", 1, 10, 1),
        ]
        assert [r.name for r in datasets.page(session, "default", after_name="a", limit=9)] == ["b"]
        assert [r.name for r in datasets.page(session, "default", name="a", limit=9)] == ["a"]
        newest = datasets.versions(session, "default", "a", before_number=None, limit=1)
        older = datasets.versions(session, "default", "a", before_number=2, limit=9)
        assert ([v.number for v in newest], [v.number for v in older]) == ([2], [1])


@pytest.fixture
def queries(database):
    """The queries that have been executed."""
    executed = []

    def record(connection, cursor, statement, *_):
        if statement.startswith("SELECT"):
            executed.append(statement)

    event.listen(database.engine, "before_cursor_execute", record)
    yield executed
    event.remove(database.engine, "before_cursor_execute", record)


def test_pages_are_one_query_without_columns_and_previews(database, add, queries):
    for name in ("a", "b"):
        add(name)
    with database.read() as session:
        queries.clear()
        [page, _] = datasets.page(session, "default", limit=9)
        [version] = datasets.versions(session, "default", "a", before_number=None, limit=9)
        [locked] = datasets.lock_for_deletion(session, "default", VersionReference("b"))
        assert len(queries) == 3
        for listed in (page.newest, version, locked):
            for name in ("columns", "preview", "options", "splits", "left_out"):
                with pytest.raises(InvalidRequestError):
                    getattr(listed, name)
        assert len(queries) == 3


def test_shared_files_and_unfinished_uploads_count_once_in_the_used_bytes(database, add):
    add()
    add("copy")
    add("other", "b", size_bytes=7)
    add("elsewhere", "c", project="vision", size_bytes=1)
    with database.write() as session:
        dataset_uploads.start(session, "default", NewUpload("birds", "f", 100), None)
        done = dataset_uploads.start(session, "default", NewUpload("birds", "f", 1000), None)
        dataset_uploads.mark_complete(session, done.id, 1)
    with database.read() as session:
        assert datasets.used_bytes(session) == {"default": 117, "vision": 1}
        assert datasets.used_bytes(session, "vision") == {"vision": 1}


def test_a_quota_limits_stored_and_announced_bytes(database, add, in_transaction):
    add()
    in_transaction(projects.update, "default", {"max_dataset_bytes": 30})
    in_transaction(dataset_uploads.start, "default", NewUpload("birds", "f", 20), None)
    with pytest.raises(StorageQuotaReached, match=r"quota of 30 bytes.*30 are used.*needs 1"):
        in_transaction(dataset_uploads.start, "default", NewUpload("birds", "f", 1), None)
    in_transaction(dataset_uploads.start, "default", NewUpload("birds", "f", 0), None)


def test_of_two_concurrent_uploads_only_one_fits_into_the_quota(
    database, in_transaction, until_blocked
):
    in_transaction(projects.update, "default", {"max_dataset_bytes": 30})
    refused = []

    def start():
        try:
            in_transaction(dataset_uploads.start, "default", NewUpload("b", "f", 20), None)
        except StorageQuotaReached as error:
            refused.append(error)

    thread = threading.Thread(target=start)
    with database.write() as session:
        dataset_uploads.start(session, "default", NewUpload("a", "f", 20), None)
        thread.start()
        until_blocked(thread)
    join(thread)
    assert len(refused) == 1


def test_a_project_has_a_limited_number_of_unfinished_uploads(database, in_transaction):
    new = NewUpload("birds", "f", 1)
    with database.write() as session:
        for _ in range(MAX_OPEN):
            upload = dataset_uploads.start(session, "default", new, None)
    with pytest.raises(TooManyUploads, match=str(MAX_OPEN)):
        in_transaction(dataset_uploads.start, "default", new, None)
    in_transaction(dataset_uploads.remove, upload.id)
    in_transaction(dataset_uploads.start, "default", new, None)


def test_a_part_is_added_only_at_the_offset_of_the_upload(database, in_transaction):
    upload = in_transaction(dataset_uploads.start, "default", NewUpload("birds", "f", 9), "ada")
    assert in_transaction(dataset_uploads.add_part, upload.id, 0, ("one", 4, "s"))
    assert not in_transaction(dataset_uploads.add_part, upload.id, 0, ("again", 4, "s"))
    assert in_transaction(dataset_uploads.add_part, upload.id, 4, ("two", 5, "t"))
    row = in_transaction(dataset_uploads.get, "default", "birds", upload.id)
    assert (row.offset_bytes, row.parts) == (9, [["one", 4, "s"], ["two", 5, "t"]])
    assert in_transaction(dataset_uploads.get, "default", "other", upload.id) is None
    in_transaction(dataset_uploads.mark_complete, upload.id, 1)
    assert not in_transaction(dataset_uploads.add_part, upload.id, 9, ("three", 1, "u"))


def test_an_upload_expires_after_its_last_part_and_at_the_end_of_its_lifetime(
    database, in_transaction
):
    upload = in_transaction(dataset_uploads.start, "default", NewUpload("birds", "f", 9), None)

    def change(**values):
        with database.write() as session:
            row = session.get_one(DatasetUpload, upload.id)
            for name, value in values.items():
                setattr(row, name, value)

    change(expires_at=from_now(1000.0))
    assert in_transaction(dataset_uploads.expired) == []
    in_transaction(dataset_uploads.add_part, upload.id, 0, ("one", 1, "s"))
    extended = in_transaction(dataset_uploads.get, "default", "birds", upload.id).expires_at
    change(created_at=from_now(-dataset_uploads.MAX_LIFETIME_S))
    in_transaction(dataset_uploads.add_part, upload.id, 1, ("two", 1, "s"))
    row = in_transaction(dataset_uploads.get, "default", "birds", upload.id)
    assert row.expires_at == extended > row.created_at
    change(expires_at=from_now(-1.0))
    assert in_transaction(dataset_uploads.expired) == [upload.id]
    assert in_transaction(dataset_uploads.get, "default", "birds", upload.id) is None


def test_a_version_is_in_use_until_its_jobs_have_ended(database, add, make_job):
    add()
    for state in State:
        job = make_job(state, data={"kind": "npz", "dataset": "birds@1"})
        with database.write() as session:
            used = datasets.unfinished_job(session, "default", "birds", [2, 1])
            assert used == (None if state.is_terminal else (job.id, job.name, "birds@1")), state
            assert datasets.unfinished_job(session, "default", "birds", [2]) is None
            assert datasets.unfinished_job(session, "vision", "birds", [1]) is None
            session.execute(delete_rows(Job))


def test_a_version_that_a_new_job_has_locked_is_deleted_only_after_its_commit(
    database, add, delete, until_blocked
):
    add()
    deleted = threading.Thread(target=delete, args=["birds@1"])
    keys = {("default", "birds", 1)}
    with database.write() as session:
        assert datasets.lock_versions(session, {*keys, ("default", "birds", 2)}) == keys
        deleted.start()
        until_blocked(deleted)
        assert datasets.lock_versions(session, keys) == keys
    join(deleted)
    with database.write() as session:
        assert datasets.lock_versions(session, keys) == set()


def test_the_removal_of_a_file_that_a_version_names_is_not_needed(database, add):
    add()
    with database.write() as session:
        paths = [stored("a").path, stored("b").path]
        kept, gone = file_removals.schedule(session, STORAGE_FOLDER, paths)
        assert file_removals.is_needed(session, kept)
        assert not file_removals.is_needed(session, gone)

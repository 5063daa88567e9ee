"""Files by their SHA-256: one row for the same bytes, quotas, and deletion of unused ones."""

import threading

import pytest
from sqlalchemy import delete, update

from ampspec.references.stored_files import FileKind
from store.access import projects
from store.clock import from_now
from store.files import datasets, file_removals, project_files
from store.files.datasets import StorageQuotaReached
from store.files.project_files import STORAGE_FOLDER, FileKey
from store.tables import Job, ProjectFile
from tests.waiting import join


def key(content="a", project="default", kind=FileKind.WEIGHTS):
    return FileKey(project, kind, content * 64)


@pytest.fixture
def add(in_transaction):
    def add(key, path=None, size_bytes=10):
        in_transaction(projects.ensure, key.project)
        path = path or project_files.storage_path(key)
        values = {"path": path, "size_bytes": size_bytes, "created_by": "ada"}
        return in_transaction(project_files.add, key, **values)

    return add


@pytest.fixture
def find(in_transaction):
    def find(key):
        return in_transaction(project_files.find, key)

    return find


@pytest.fixture
def age(database):
    """Change when all files were last used, to that many seconds ago."""

    def age(seconds):
        with database.write() as session:
            session.execute(update(ProjectFile).values(last_used_at=from_now(-seconds)))

    return age


@pytest.fixture
def job_of(in_transaction, make_job):
    """A job that names a file."""

    def job_of(key):
        job_id = make_job(project=key.project).id
        assert in_transaction(project_files.lock, [key]) == {key}
        in_transaction(project_files.add_job_files, [(job_id, key)])
        return job_id

    return job_of


def test_the_same_bytes_are_one_file(add, find):
    first, again = add(key()), add(key())
    assert (first.path, first.created_at) == (again.path, again.created_at)
    assert (find(key()).size_bytes, find(key()).created_by) == (10, "ada")


def test_a_file_belongs_to_its_project_and_kind(add, find):
    add(key())
    assert find(key(project="vision")) is None
    assert find(key(kind=FileKind.BUNDLE)) is None
    add(key(kind=FileKind.BUNDLE))
    assert find(key()).path != find(key(kind=FileKind.BUNDLE)).path


def test_files_count_in_the_quota_of_the_project(database, add, in_transaction):
    in_transaction(projects.update, "default", {"max_dataset_bytes": 10})
    add(key())
    with database.read() as session:
        assert datasets.used_bytes(session) == {"default": 10}
    with pytest.raises(StorageQuotaReached, match="10 bytes for datasets and files; 10 are used"):
        add(key("b"), size_bytes=1)
    assert add(key()).size_bytes == 10  # it is there already


def test_a_file_that_no_job_names_is_deleted_a_day_after_its_last_use(
    in_transaction, add, find, age
):
    path = add(key()).path
    age(project_files.UNUSED_S - 60)
    assert in_transaction(project_files.remove_unused) == []
    age(project_files.UNUSED_S + 60)
    assert in_transaction(project_files.remove_unused) == [path]
    assert find(key()) is None


def test_a_lookup_keeps_a_file(in_transaction, add, age):
    add(key())
    age(project_files.UNUSED_S + 60)
    assert in_transaction(project_files.find_used, key()).size_bytes == 10
    assert in_transaction(project_files.remove_unused) == []
    recent = in_transaction(project_files.find, key()).last_used_at
    assert in_transaction(project_files.find_used, key()).last_used_at == recent  # no write


def test_a_file_is_kept_as_long_as_a_job_names_it(in_transaction, add, age, job_of):
    path = add(key()).path
    job_id = job_of(key())
    age(project_files.UNUSED_S + 60)
    assert in_transaction(project_files.remove_unused) == []
    in_transaction(lambda session: session.execute(delete(Job).where(Job.id == job_id)))
    assert in_transaction(project_files.remove_unused) == [path]


def test_only_existing_files_are_locked(in_transaction, add):
    add(key())
    assert in_transaction(project_files.lock, [key(), key("b"), key(project="vision")]) == {key()}
    assert in_transaction(project_files.lock, []) == set()


def test_a_file_that_a_new_job_names_is_not_deleted_at_the_same_time(
    database, add, age, until_blocked, make_job
):
    add(key())
    job_id = make_job().id
    age(project_files.UNUSED_S + 60)
    removed = []

    def remove():
        with database.write() as session:
            removed.extend(project_files.remove_unused(session))

    removing = threading.Thread(target=remove)
    with database.write() as session:
        assert project_files.lock(session, [key()]) == {key()}
        removing.start()
        until_blocked(removing)
        project_files.add_job_files(session, [(job_id, key())])
    join(removing)
    assert removed == []


def test_the_removal_of_content_that_a_file_has_is_not_needed(database, add):
    path = add(key()).path
    with database.write() as session:
        kept, gone = file_removals.schedule(session, STORAGE_FOLDER, [path, "default/other"])
        assert file_removals.is_needed(session, kept)
        assert not file_removals.is_needed(session, gone)

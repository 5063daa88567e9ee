import threading

import pytest

from ampspec.jobs import State
from store.clock import from_now
from store.jobs import jobs, trash
from store.jobs.tracked_runs import RunConflict, resume
from store.listing import bulk_changes
from store.listing.search_filters import Search
from store.tables import FileRemoval, Job

DAY_S = 86_400.0


@pytest.fixture
def ended(make_job):
    return make_job(State.SUCCEEDED)


def stored(database, table):
    with database.read() as session:
        return [row.folder if table is FileRemoval else row.id for row in session.query(table)]


def test_a_job_in_the_trash_is_hidden_until_it_is_restored(database, in_transaction, ended, put):
    job_id = ended.id
    assert in_transaction(trash.move, job_id, DAY_S)
    assert not in_transaction(trash.move, job_id, DAY_S)  # it keeps its time
    with database.read() as session:
        found = trash.find(session, job_id)
        assert (found.id, found.project) == (job_id, "default")
        assert jobs.get(session, job_id) is None
        assert jobs.get_rows(session.connection(), [job_id]) == []
        assert jobs.versions(session.connection(), [job_id]) == []
        assert jobs.project_and_seq(session, job_id) == (None, 0)
        assert jobs.seq_and_state(session, job_id) is None
        assert jobs.lock_needed(session, [job_id]) == set()
    for change in (jobs.retry, jobs.resume, jobs.request_cancel, jobs.request_pause):
        assert in_transaction(change, job_id) is None
    with pytest.raises(RunConflict, match="in the trash"):
        in_transaction(resume, job_id)
    assert in_transaction(trash.restore, job_id).id == job_id
    assert in_transaction(trash.restore, job_id) is None
    with database.read() as session:
        assert trash.find(session, job_id) is None
        assert jobs.get(session, job_id).state == State.SUCCEEDED


def test_the_trash_is_emptied_of_what_is_due(database, in_transaction, make_job, put):
    due, later, used = (make_job(State.SUCCEEDED).id for _ in range(3))
    for job_id in (due, later, used):
        in_transaction(trash.move, job_id, DAY_S)
    put(due, purge_at=from_now(-1))
    put(used, state=State.QUEUED)  # by a server of an older version, which sees the trash
    in_transaction(trash.take_out_unfinished)
    with database.read() as session:
        assert trash.due(session, 10) == [due]
        assert jobs.get(session, used) is not None
    assert not in_transaction(trash.purge, later)
    assert in_transaction(trash.purge, due)
    assert not in_transaction(trash.purge, due)
    assert sorted(stored(database, Job)) == sorted([later, used])
    assert stored(database, FileRemoval) == [due]


def test_what_others_need_does_not_go_into_the_trash(database, in_transaction, make_job, put):
    needed, running, free = make_job(State.SUCCEEDED), make_job(State.RUNNING), make_job()
    put(make_job().id, extends=needed.id)
    in_transaction(jobs.request_cancel, free.id)
    for job_id in (needed.id, running.id):
        assert not in_transaction(trash.move, job_id, DAY_S)
    changed = in_transaction(bulk_changes.trash_matching, Search(), limit=10, keep_s=DAY_S)
    assert ([job.id for job in changed.jobs], changed.has_more) == ([free.id], False)
    again = in_transaction(bulk_changes.trash_matching, Search(), limit=10, keep_s=0)
    assert again.jobs == []  # it is in the trash already, and keeps its time there
    assert len(stored(database, Job)) == 4


def test_a_job_that_is_being_extended_does_not_go_into_the_trash(
    database, in_transaction, ended, make_job, until_blocked
):
    moved = []
    thread = threading.Thread(
        target=lambda: moved.append(in_transaction(trash.move, ended.id, DAY_S))
    )
    with database.write() as session:
        assert jobs.lock_needed(session, [ended.id]) == {ended.id}
        thread.start()
        until_blocked(thread)
        job = session.get_one(Job, jobs.create(session, *_extension(ended)).id)
        job.extends = ended.id
    thread.join()
    assert moved == [False]


def _extension(job):
    from ampspec.jobs import JobSpec

    return JobSpec.parse(job.spec), jobs.Origin("default", extends=job.id)

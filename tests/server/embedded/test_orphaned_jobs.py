import logging

from sqlalchemy import text, update

from ampspec.jobs import Reason, State
from server.embedded import orphaned_jobs
from store import workers
from store.jobs import jobs
from store.tables import Job

KNOWN = {"hostname": "h", "pid": 1, "version": "1"}


def test_jobs_of_a_killed_worker_are_queued_again_at_once(database, make_job):
    running, waiting = make_job(State.RUNNING).id, make_job().id
    with database.write() as session:
        workers.register(session, "gone", slots=1, queues=["default"], **KNOWN)
    orphaned_jobs.end_orphaned_jobs(database)
    with database.read() as session:
        expired = jobs.get(session, running)
        assert (expired.state, expired.reason) == (State.QUEUED, Reason.WORKER_LOST)
        assert jobs.get(session, waiting).state == State.QUEUED
        assert [state for _, state in workers.listing(session)] == ["stopped"]


def test_workers_that_a_batch_system_has_started_go_on(database, make_job):
    """Slurm does not end them with the server."""
    running = make_job(State.RUNNING).id
    with database.write() as session:
        workers.register(session, "in Slurm", slots=1, queues=["default"], job_id=running, **KNOWN)
        session.execute(update(Job).values(worker_id="in Slurm"))
    orphaned_jobs.end_orphaned_jobs(database)
    with database.read() as session:
        assert jobs.get(session, running).state == State.RUNNING
        assert [state for _, state in workers.listing(session)] == ["online"]


def test_a_database_error_leaves_the_jobs_until_their_leases_expire(sqlite_url, caplog):
    from store.database import Database

    database = Database(sqlite_url)
    with database.write() as session:
        session.execute(text("ALTER TABLE jobs RENAME TO elsewhere"))
    with caplog.at_level(logging.WARNING):
        orphaned_jobs.end_orphaned_jobs(database)
    assert "their leases will expire" in caplog.text
    database.close()

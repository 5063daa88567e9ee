from sqlalchemy import update

from ampcore.spec import State
from store import jobs, workers
from store.clock import after
from store.tables import Worker


def register(database):
    with database.write() as session:
        workers.register(session, "worker-1", hostname="here", pid=42, slots=2, version="1")
    return "worker-1"


def test_a_worker_is_online_until_it_is_not_heard_of(database):
    worker_id = register(database)

    def state():
        with database.read() as session:
            [(worker, word)] = workers.listing(session)
            assert worker.id == worker_id
            return word

    assert state() == "online"
    with database.write() as session:
        session.execute(update(Worker).values(last_seen_at=after(-workers.SILENCE_S - 1)))
    assert state() == "lost"
    with database.write() as session:
        workers.seen(session, worker_id)
    assert state() == "online"
    with database.write() as session:
        workers.stopped(session, worker_id)
    assert state() == "stopped"


def test_hardware_stays_once_it_is_known(database):
    worker_id = register(database)
    with database.write() as session:
        workers.seen(session, worker_id, {"devices": ["CPU"]})
        workers.seen(session, worker_id)
    with database.read() as session:
        [(worker, _)] = workers.listing(session)
        assert worker.hardware == {"devices": ["CPU"]}


def test_only_active_jobs_belong_to_a_worker(database, make_job):
    running, _, _ = make_job(State.RUNNING), make_job(State.SUCCEEDED), make_job()
    with database.read() as session:
        assert jobs.get(session, running.id).worker_id == "some-worker"
        assert workers.jobs_by_worker(session) == {"some-worker": [running.id]}

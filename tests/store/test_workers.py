import pytest
from sqlalchemy import update

from ampspec.jobs import State
from store import workers
from store.clock import from_now
from store.jobs import jobs
from store.tables import Worker


def register(database, worker_id="worker-1", queues=("default", "cpu")):
    fields = {"hostname": "here", "pid": 42, "slots": 2, "version": "1"}
    with database.write() as session:
        workers.register(session, worker_id, queues=queues, **fields)
    return worker_id


@pytest.fixture
def online(database):
    """The ids of the workers that take jobs."""

    def online(queue=None):
        with database.autocommit() as connection:
            return {worker.id for worker in workers.online(connection, queue)}

    return online


def test_a_worker_is_online_until_its_heartbeats_stop(database):
    worker_id = register(database)

    def state():
        with database.read() as session:
            [(worker, word)] = workers.listing(session)
            assert worker.id == worker_id
            return word

    assert state() == "online"
    with database.write() as session:
        session.execute(
            update(Worker).values(last_seen_at=from_now(-workers.HEARTBEAT_TIMEOUT_S - 1))
        )
    assert state() == "lost"
    with database.write() as session:
        workers.heartbeat(session, worker_id)
    assert state() == "online"
    with database.write() as session:
        workers.stopped(session, worker_id)
    assert state() == "stopped"


def test_a_heartbeat_without_hardware_keeps_the_known_hardware(database):
    worker_id = register(database)
    with database.write() as session:
        workers.heartbeat(session, worker_id, hardware={"devices": ["CPU"]}, usage={"lag_s": 0.5})
        workers.heartbeat(session, worker_id, hardware=None, usage={"lag_s": float("inf")})
    with database.read() as session:
        [(worker, _)] = workers.listing(session)
        assert worker.hardware == {"devices": ["CPU"]}
        assert worker.usage == {"lag_s": "Infinity"}


def test_a_draining_worker_is_notified_and_gets_no_more_jobs(database, in_transaction, online):
    worker_id = register(database)
    assert in_transaction(workers.heartbeat, worker_id) is None
    assert online("cpu") == {worker_id}
    asked_at = in_transaction(workers.request_drain, worker_id).drain_requested_at
    assert in_transaction(workers.request_drain, worker_id).drain_requested_at == asked_at
    assert in_transaction(workers.heartbeat, worker_id) == (None,)
    in_transaction(workers.request_drain, worker_id, 5.0)
    in_transaction(workers.request_drain, worker_id)
    assert in_transaction(workers.heartbeat, worker_id) == (5.0,)
    assert online() == set()
    assert in_transaction(workers.get, worker_id)[1] == "online"
    assert in_transaction(workers.request_drain, "nobody") is None
    assert in_transaction(workers.get, "nobody") is None


def test_the_workers_of_a_queue_are_listed(database, in_transaction, online):
    register(database, "both")
    register(database, "big", queues=("big",))
    register(database, "gone")
    in_transaction(workers.stopped, "gone")
    assert online("default") == {"both"}
    assert online() == {"both", "big"}
    assert online("gpu") == set()


def test_workers_not_seen_for_long_are_deleted_unless_they_have_a_job(
    database, in_transaction, make_job
):
    for name in ("some-worker", "gone", "here"):
        register(database, name)
    make_job(State.RUNNING)  # of some-worker
    with database.write() as session:
        session.execute(
            update(Worker).where(Worker.id != "here").values(last_seen_at=from_now(-1000))
        )
    in_transaction(workers.delete_gone, gone_s=900)
    with database.read() as session:
        assert {worker.id for worker, _ in workers.listing(session)} == {"some-worker", "here"}


def test_only_active_jobs_belong_to_a_worker(database, make_job):
    running, _, _ = make_job(State.RUNNING), make_job(State.SUCCEEDED), make_job()
    with database.read() as session:
        assert jobs.get(session, running.id).worker_id == "some-worker"
        assert workers.jobs_by_worker(session) == {"some-worker": [running.id]}


def test_a_worker_for_one_job_is_listed_and_is_no_capacity_for_others(
    database, in_transaction, online
):
    """The other jobs of its queue may not count on its slots, devices, packages and limits."""
    register(database, "plain")
    fields = {"hostname": "there", "pid": 7, "slots": 8, "version": "1"}
    in_transaction(workers.register, "w", queues=["gpu"], job_id="ab12", **fields)
    entry = {"package": "custom-package", "group": "models", "name": "two_towers"}
    hardware = {
        "devices": [{"kind": "gpu", "name": "GPU"}],
        "isolation": {"memory_bytes": 2**30},
        "packages": [entry],
    }
    in_transaction(workers.heartbeat, "w", hardware=hardware)
    assert online() == {"plain"}
    assert online("gpu") == set()
    with database.read() as session:
        connection = session.connection()
        assert {worker.job_id for worker in workers.online_with_job_workers(connection)} == {
            None,
            "ab12",
        }
        assert workers.slots_by_queues(connection) == [(["default", "cpu"], 2)]
        assert workers.online_devices(session) == []
        assert workers.online_memory_limits(session, in_sandbox=False) == []
        assert workers.online_packages(session) == {}
        assert workers.packages_of_queue(session, "gpu") == []
        assert {worker.id: worker.job_id for worker, _ in workers.listing(session)} == {
            "plain": None,
            "w": "ab12",
        }

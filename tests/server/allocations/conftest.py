"""Fixtures: a batch system of the tests with its scheduler, and a cluster of Kubernetes."""

import pytest
from sqlalchemy import select

from server.allocations.kubernetes import Kubernetes
from store import allocations
from store.listing import waiting_reason
from store.tables import Job
from store.telemetry import events
from tests.kubernetes_cluster import fake_cluster, write_kubeconfig
from tests.server.allocations.fake_batch_system import QUEUE, FakeBatchSystem, new_scheduler
from tests.server.allocations.kubernetes_queues import settings_with


@pytest.fixture
def cluster():
    """A cluster in which nothing happens by itself."""
    with fake_cluster() as cluster:
        yield cluster


@pytest.fixture
def new_kubernetes(cluster, tmp_path):
    """Connects to the cluster, with the queues of kubernetes_queues."""
    connected = []

    def connect(**values):
        settings = settings_with(kubeconfig=write_kubeconfig(cluster, tmp_path), **values)
        connected.append(Kubernetes(settings))
        return connected[-1]

    yield connect
    for kubernetes in connected:
        kubernetes.close()


@pytest.fixture
def kubernetes(new_kubernetes):
    """Kubernetes with these queues."""
    return new_kubernetes()


@pytest.fixture
def batch_system():
    return FakeBatchSystem()


@pytest.fixture
def scheduler(database, batch_system):
    """A scheduler of the queue `batch` whose rounds the test calls."""
    return new_scheduler(database, batch_system)


@pytest.fixture
def queued_job(make_job):
    """A job of the queue `batch`."""
    return make_job(runtime=QUEUE)


@pytest.fixture
def allocation_of(database):
    """The newest allocation of a job."""

    def read(job):
        with database.read() as session:
            rows = allocations.of_job(session, job.id)
        return rows[-1] if rows else None

    return read


@pytest.fixture
def waiting_of(database):
    """Why a job waits."""

    def read(job):
        with database.read() as session:
            row = session.execute(select(Job.id, Job.state).where(Job.id == job.id)).one()
            return waiting_reason.why_waiting(session.connection(), [row]).get(job.id)

    return read


@pytest.fixture
def messages_of(database):
    """The messages of the events that say what became of the allocations of a job."""

    def read(job):
        with database.read() as session:
            rows = events.read(session, job.id, limit=100, types=["allocation"])
            seq = session.scalar(select(Job.seq).where(Job.id == job.id))
        assert all(row.seq <= seq for row in rows)
        return [row.data["message"] for row in rows]

    return read

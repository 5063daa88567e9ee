"""Fixtures of the tests of Kubernetes: a cluster, and the scheduler's view of it."""

import pytest

from server.allocations.kubernetes import Kubernetes
from tests.kubernetes_cluster import fake_cluster, write_kubeconfig
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

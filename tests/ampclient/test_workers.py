import pytest

from ampclient import NotFound


def test_workers_are_listed(client, server, worker):
    server.workers = [worker()]
    [listed] = client.workers.list()
    assert (listed.id, listed.slots, listed.jobs, listed.queues) == (
        "w1", 2, ["a"], ["default", "cpu"]
    )  # fmt: skip
    assert listed.last_seen_at > listed.started_at


def test_one_worker_is_read(client, server, worker):
    server.workers = [worker(), worker(id="w2", hostname="other")]
    assert client.workers.get("w2").hostname == "other"
    with pytest.raises(NotFound):
        client.workers.get("w3")


def test_drain_returns_the_draining_worker(client, server, worker):
    server.workers = [worker()]
    assert client.workers.drain("w1").draining
    assert server.requests[-1].method == "POST"

import httpx
import pytest

import ampclient
from ampclient import Client

WORKER = {
    "id": "w1",
    "hostname": "box",
    "pid": 7,
    "slots": 1,
    "state": "online",
    "version": "0.1.0",
    "hardware": {"devices": []},
    "jobs": ["a"],
    "started_at": "2030-01-02T03:04:05Z",
    "last_seen_at": "2030-01-02T03:04:06.5Z",
}


def test_workers_are_listed(client, server):
    server.workers = [WORKER]
    [worker] = client.workers.list()
    assert (worker.id, worker.slots, worker.jobs) == ("w1", 1, ["a"])
    assert worker.last_seen_at > worker.started_at


def test_kinds_policies_and_the_version_are_read(client):
    assert [kind.kind for kind in client.models()] == ["cnn"]
    assert [kind.kind for kind in client.datasets()] == ["cnn"]
    assert [policy.compute_dtype for policy in client.policies()] == ["float16"]
    version = client.version()
    assert (version.version, version.api, version.schema) == ("9.8.7", "v1", None)


def test_an_http_client_that_was_handed_in_is_not_closed(server):
    http_client = httpx.Client(transport=httpx.MockTransport(server))
    with Client("http://host", "token", http_client=http_client):
        pass
    assert not http_client.is_closed
    http_client.close()


def test_a_proxy_in_the_environment_does_not_hide_this_machine(address, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with Client(address, "a-secret-token") as client:
        assert client.version().version == "9.8.7"


def test_exported_names_are_sorted_and_exist():
    assert ampclient.__all__ == sorted(ampclient.__all__)
    for name in ampclient.__all__:
        assert getattr(ampclient, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        ampclient.Nothing  # noqa: B018

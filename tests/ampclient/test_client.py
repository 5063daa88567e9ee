import httpx
import pytest

import ampclient
from ampclient import Client


def test_kinds_policies_and_the_version_are_read(client):
    lists = (
        client.model_kinds, client.layers, client.data_kinds,
        client.losses, client.metrics, client.optimizers,
    )  # fmt: skip
    for kinds in lists:
        assert [kind.kind for kind in kinds()] == ["cnn"]
    assert [policy.compute_dtype for policy in client.policies()] == ["float16"]
    version = client.version()
    assert (version.version, version.api, version.schema_revision) == ("9.8.7", "v1", None)


def test_the_session_has_token_name_role_and_project(client):
    session = client.session()
    assert (session.token_name, session.role, session.project) == ("anna", "member", "vision")


def test_the_audit_is_read_lazily_over_all_pages(client, server):
    entry = {"at": "2030-01-02T03:04:05Z", "action": "job.cancel", "target": "a", "data": None}
    who = dict.fromkeys(("project", "token_id", "token_name", "address", "request_id"))
    server.audit = [{"id": number, **entry, **who} for number in (5, 4, 3)]
    entries = client.audit(action="job.cancel")
    assert server.requests == []
    assert [entry.id for entry in entries] == [5, 4, 3]
    assert [request.url.params["action"] for request in server.requests] == ["job.cancel"] * 2


def test_an_http_client_given_by_the_caller_is_not_closed(server):
    http_client = httpx.Client(transport=httpx.MockTransport(server))
    with Client("http://host", "token", http_client=http_client):
        pass
    assert not http_client.is_closed
    http_client.close()


def test_a_proxy_from_the_environment_is_not_used_for_loopback(address, monkeypatch):
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

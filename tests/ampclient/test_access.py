import json
from datetime import UTC, datetime

import pytest

from ampclient import Forbidden, NotFound
from tests.waiting import DEADLINE_S


def test_a_token_is_created_with_role_project_and_expiry(client, server):
    expires_at = datetime(2030, 12, 31, tzinfo=UTC)
    token = client.tokens.create("ci", role="viewer", project="vision", expires_at=expires_at)
    assert (token.name, token.role, token.project) == ("ci", "viewer", "vision")
    assert (token.expires_at, token.secret) == (expires_at, "amp_secret")
    assert "amp_secret" not in repr(token)


def test_the_scopes_of_a_token_were_called_rights(client, server):
    with pytest.warns(DeprecationWarning, match=r"create\(rights=\) is now scopes="):
        token = client.tokens.create("ci", rights=["jobs:run-code"])
    assert token.scopes == server.tokens[0]["scopes"] == ["jobs:run-code"]


def test_an_argument_with_both_of_its_names_is_refused(client, server):
    with (
        pytest.warns(DeprecationWarning, match="is now scopes="),
        pytest.raises(TypeError, match="takes scopes or its old name rights, not both"),
    ):
        client.tokens.create("ci", scopes=["jobs:run-code"], rights=["code"])
    with (
        pytest.warns(DeprecationWarning, match="is now timeout_s="),
        pytest.raises(TypeError, match="timeout_s and its old name timeout"),
    ):
        client.tokens.create("ci", timeout_s=DEADLINE_S, timeout=DEADLINE_S)
    assert not server.requests


def test_an_omitted_expiry_is_not_sent(client, server):
    client.tokens.create("ci")
    sent = json.loads(server.requests[0].content)
    assert sent == {"name": "ci", "role": "member", "project": "default"}


def test_a_token_whose_response_is_lost_is_created_once_and_returned(
    client, server, clock, lose_response
):
    """Fails without an idempotency key: it is created twice, or its secret is lost."""
    server.next_responses = [lose_response]
    created = client.tokens.create("ci")
    assert [token["id"] for token in server.tokens] == [created.id]
    assert created.secret


def test_tokens_are_listed_and_revoked(client, server):
    token = client.tokens.create("ci")
    client.tokens.revoke(token.id)
    [listed] = client.tokens.list()
    assert (listed.id, listed.revoked_at is not None) == (token.id, True)
    with pytest.raises(NotFound):
        client.tokens.revoke("beef")


def test_tokens_are_read_page_by_page_and_no_more_than_asked_for(client, server):
    """Fails if all tokens are read for the first one."""
    client.tokens.create("ci")
    [token] = server.tokens
    server.tokens = [
        {**token, "id": f"{number:04x}", "name": f"ci-{number}"} for number in range(250)
    ]
    server.requests.clear()
    assert len(list(client.tokens.list())) == 250
    assert [request.url.params.get("cursor") for request in server.requests] == [None, "100", "200"]
    server.requests.clear()
    assert [token.name for token in client.tokens.list(limit=2)] == ["ci-0", "ci-1"]
    [request] = server.requests
    assert request.url.params["limit"] == "2"


def test_a_403_response_raises_forbidden(client, server, respond):
    document = {"code": "forbidden", "detail": "Expected an admin.", "title": "No"}
    server.next_responses = [respond(403, json=document)]
    with pytest.raises(Forbidden, match="admin"):
        list(client.tokens.list())


def test_an_update_of_a_project_sends_only_what_it_changes(client, server):
    """Fails if what is left out is sent as no limit: it erased the quota of dataset bytes."""
    client.projects.update("vision", max_queued=10, max_running=2, max_dataset_bytes=5)
    project = client.projects.update("vision", max_queued=None, weight=2.5)
    assert json.loads(server.requests[-1].content) == {"max_queued": None, "weight": 2.5}
    assert server.requests[-1].method == "PATCH"
    assert (project.max_queued, project.max_running, project.max_dataset_bytes) == (None, 2, 5)
    assert [project.name for project in client.projects.list()] == ["vision"]


def test_a_project_of_an_older_server_has_no_device_quotas(client, server):
    client.projects.update("vision", max_queued=10)
    [project] = client.projects.list()
    assert (project.weight, project.max_devices, project.devices) == (1.0, None, 0)

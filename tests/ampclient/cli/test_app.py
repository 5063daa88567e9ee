import json

import pytest

import ampcore


def test_version_shows_client_and_server(ampctl, address):
    result = ampctl("version")
    assert result.out == f"ampctl {ampcore.__version__}\nserver 9.8.7 (API v1) at {address}\n"
    assert ampctl("version", "--json").json()["server"]["version"] == "9.8.7"


def test_the_version_option_needs_no_server(ampctl, monkeypatch, tmp_path):
    monkeypatch.setenv("AMPCORE_CONNECTION", str(tmp_path / "nothing.json"))
    assert ampctl("--version").out == f"ampctl {ampcore.__version__}\n"


def test_a_server_that_is_not_ampcore_is_reported_once(ampctl, server, respond):
    server.next_responses = [respond(404, html="<!doctype html><title>Hello</title>")]
    result = ampctl("list")
    assert result.code == 7
    assert result.err.startswith("error: This does not look like an ampcore server. Check")
    assert result.err.count("404") == 1


def test_the_connection_option_selects_a_file(ampctl, configured, monkeypatch, tmp_path):
    monkeypatch.delenv("AMPCORE_CONNECTION")
    monkeypatch.setenv("AMPCORE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AMPCORE_TOKEN", "other")
    assert ampctl("--connection", str(configured), "version").code == 0


def test_the_url_option_selects_a_server(ampctl, address, monkeypatch):
    assert ampctl("--url", address, "version").code == 0
    monkeypatch.setenv("AMPCORE_TOKEN", "wrong")
    result = ampctl("--url", address, "version")
    assert result.code == 5
    assert "(unauthorized, HTTP 401)" in result.err


def test_an_address_and_a_file_together_are_wrong_usage(ampctl, address, configured):
    assert ampctl("--url", address, "--connection", str(configured), "version").code == 2


def test_an_error_without_a_server_address_says_what_to_do(ampctl, monkeypatch, tmp_path):
    monkeypatch.setenv("AMPCORE_CONNECTION", str(tmp_path / "nothing.json"))
    result = ampctl("list")
    assert result.code == 2
    assert result.err.startswith("error: No server address found")
    assert "ampserver up" in result.err


def test_an_unreachable_server_is_a_readable_error(ampctl, clock, configured):
    configured.write_text(json.dumps({"url": "http://127.0.0.1:1", "token": "t"}))
    result = ampctl("list")
    assert result.code == 6
    assert result.err.startswith("error: Cannot connect to http://127.0.0.1:1: ")
    assert "Is the server running?" in result.err


def test_an_error_of_the_server_is_shown_with_the_request_id(ampctl, server, respond):
    document = {"code": "internal_error", "detail": "Sorry.", "title": "Internal server error"}
    headers = {"x-request-id": "4f1c"}
    server.next_responses = [respond(500, json=document, headers=headers)]
    assert ampctl("list").err.splitlines() == [
        "error: Sorry. (internal_error, HTTP 500)",
        "  Request id, for the server's log: 4f1c.",
    ]
    server.next_responses = [respond(404, json={**document, "code": "not_found"}, headers=headers)]
    assert "4f1c" not in ampctl("get", "a").err


def test_a_forbidden_request_suggests_ampctl_whoami(ampctl, server, respond):
    server.next_responses = [
        respond(403, json={"code": "forbidden", "detail": "Expected an admin."})
    ]
    assert "ampctl whoami" in ampctl("token", "list").err


@pytest.mark.parametrize("arguments", [["nonsense"], ["get"], ["list", "--nonsense"]])
def test_wrong_usage_exits_2(ampctl, arguments):
    result = ampctl(*arguments)
    assert result.code == 2
    assert result.err


def test_no_option_takes_a_token(ampctl):
    assert "--token" not in ampctl("--help").out
    assert ampctl("--token", "secret", "list").code == 2

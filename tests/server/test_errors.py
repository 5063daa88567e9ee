import json
import logging
import re

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from server.http.json_body import MAX_DEPTH
from server.http.limits import MAX_BODY_BYTES
from store.listing import search
from tests.tables import every_row

SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


def post(api, content):
    return api.client.post("/api/v1/jobs", content=content)


def assert_problem(answer, status, code):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["type"].endswith(code)
    assert problem["title"]
    assert problem["detail"]
    return problem


@every_row(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"a": 1,}',
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1, "a": 2}',
        b'"\xff"',
        b"\xff\xfe",
        b'{"a": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    ],
)
def test_a_body_that_is_not_json_is_refused(api, body):
    assert_problem(post(api, body), 400, "malformed_json")


@every_row("body", [b"null", b"[]", b"3", b'"text"', b"{}"])
def test_json_that_is_not_a_spec_is_an_invalid_spec(api, body):
    assert_problem(post(api, body), 422, "invalid_spec")


@every_row("text", ["a\0b", "\ud800"])
@every_row("part", ["name", "labels"])
def test_text_that_a_database_cannot_store_is_an_invalid_spec(api, text, part):
    value = text if part == "name" else {text: text}
    problem = assert_problem(post(api, json.dumps({**SPEC, part: value})), 422, "invalid_spec")
    assert problem["errors"][0]["pointer"] == f"/{part}"


def test_unicode_text_is_returned_unchanged(api):
    name = "Grüße, 世界 🎓"
    assert api.client.post("/api/v1/jobs", json={**SPEC, "name": name}).json()["name"] == name


def test_a_body_of_the_maximum_size_is_accepted(api):
    body = json.dumps(SPEC).encode()
    assert post(api, body + b" " * (MAX_BODY_BYTES - len(body))).status_code == 201


@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, 20 * MAX_BODY_BYTES])
def test_a_body_with_a_too_large_content_length_is_refused(api, size):
    assert_problem(post(api, b" " * size), 413, "payload_too_large")


def test_a_streamed_body_above_the_limit_is_refused(api):
    pieces = (b" " * 10_000 for _ in range(40))  # sent without a Content-Length
    assert_problem(post(api, pieces), 413, "payload_too_large")


def test_a_streamed_body_within_the_limit_is_accepted(api):
    assert post(api, iter([json.dumps(SPEC).encode()])).status_code == 201


def test_an_unknown_path_is_not_found(api):
    assert_problem(api.client.get("/api/v1/nothing"), 404, "not_found")
    assert_problem(api.client.get("/api/v1/jobs/"), 404, "not_found")
    assert_problem(api.client.get("/api/v1/docs/assets/nothing.js"), 404, "not_found")


@every_row("path", ["/docs", "/api/v1", "/api/v1/", "/api/v1/jobs/"])
def test_the_error_of_an_unknown_path_names_the_page_of_all_paths(api, path):
    detail = assert_problem(api.client.get(path), 404, "not_found")["detail"]
    assert "/api/v1/docs" in detail
    assert ("slash" in detail) == path.endswith("/")


@pytest.mark.parametrize(
    ("body", "hinted"), [(b"model: {kind: mlp}\n", True), (b"{model: mlp}", False), (b"", False)]
)
def test_the_error_of_a_yaml_body_names_ampctl(api, body, hinted):
    problem = assert_problem(post(api, body), 400, "malformed_json")
    assert ("ampctl" in problem["detail"]) == hinted


@every_row("path", ["/healthz", "/readyz", "/api/v1/jobs", "/api/v1/nothing"])
def test_head_is_answered_as_get_without_the_body(api, path):
    get, head = api.client.get(path), api.client.head(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    assert head.headers["content-length"] == get.headers["content-length"]


@every_row(
    ("method", "path", "allowed"),
    [
        ("DELETE", "jobs", "GET, HEAD, POST"),
        ("POST", "version", "GET, HEAD"),
        ("HEAD", "jobs/0123456789ab/cancel", "POST"),
        ("GET", "jobs/0123456789ab/cancel", "POST"),
    ],
)
def test_a_method_that_a_path_does_not_support_is_refused(api, method, path, allowed):
    answer = api.client.request(method, f"/api/v1/{path}")
    assert answer.headers["Allow"] == allowed
    if method != "HEAD":
        assert allowed in assert_problem(answer, 405, "method_not_allowed")["detail"]
    assert answer.status_code == 405


@every_row("path", ["/readyz", "/healthz", "/api/v1/version", "/api/v1/models"])
def test_an_unknown_parameter_is_refused(api, path):
    problem = assert_problem(api.client.get(f"{path}?limit=3"), 422, "invalid_request")
    assert problem["errors"][0]["pointer"] == "/query/limit"


def test_an_unexpected_error_reveals_no_internals(api, monkeypatch, caplog, wait_until):
    def fail(*_args, **_options):
        raise RuntimeError("the secret inside")

    monkeypatch.setattr(search, "page", fail)
    with caplog.at_level(logging.ERROR):
        answer = api.client.get("/api/v1/jobs")
        wait_until(lambda: "the secret inside" in caplog.text)
    assert_problem(answer, 500, "internal_error")
    assert not re.search(r"secret|RuntimeError|Traceback", answer.text)


def test_an_unavailable_database_gets_503(api, monkeypatch):
    def fail(*_args, **_options):
        raise OperationalError("SELECT secret", {}, Exception("connection refused"))

    monkeypatch.setattr(search, "page", fail)
    answer = api.client.get("/api/v1/jobs")
    assert_problem(answer, 503, "unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    assert "secret" not in answer.text


def test_an_invalid_database_statement_gets_500(api, monkeypatch, caplog):
    """Not an outage: clients would retry it forever."""

    def ask(session, *_args, **_options):
        session.execute(text("SELECT nonsense FROM jobs"))

    monkeypatch.setattr(search, "page", ask)
    answer = api.client.get("/api/v1/jobs")
    assert_problem(answer, 500, "internal_error")
    assert "Retry-After" not in answer.headers
    assert "nonsense" in caplog.text
    assert "nonsense" not in answer.text


def test_authentication_without_a_database_gets_503(api, tmp_path):
    from server.http.access.auth_middleware import AuthMiddleware
    from server.http.access.authenticator import Authenticator
    from server.http.access.rate_limit import RateLimit
    from store.database import Database

    gone = Database(f"sqlite:///{tmp_path / 'no' / 'such' / 'folder.sqlite'}")
    door = AuthMiddleware(api.app, Authenticator(gone, RateLimit("9/minute")), limit=None)
    transport = httpx.ASGITransport(app=door)

    async def ask():
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            headers = {"Authorization": "Bearer x"}
            return await client.get("/api/v1/jobs", headers=headers)

    import anyio

    assert_problem(anyio.run(ask), 503, "unavailable")

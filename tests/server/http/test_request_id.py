import json
import logging
import re
import time

import pytest

from infra.log_config import ContextFilter, JsonFormatter
from server.http import request_id
from server.http.limits import MAX_BODY_BYTES
from tests.tables import every_row

ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: request ids do not depend on it."""
    return sqlite_url


@pytest.fixture
def logged(caplog):
    """The lines of a logger so far, as they are written."""
    formatter = JsonFormatter()
    caplog.handler.addFilter(context := ContextFilter())
    caplog.set_level(logging.INFO)
    yield lambda logger: [
        json.loads(formatter.format(record))
        for record in list(caplog.records)
        if record.name == logger
    ]
    caplog.handler.removeFilter(context)


@pytest.fixture
def lines(test_server, logged, caplog, wait_until):
    """Wait for exactly `count` log lines, which are written after the responses."""
    wait_until(
        lambda: not test_server.active_requests,
        "the requests of earlier tests are logged",
    )
    caplog.clear()

    def wait(count, logger="server.http.access"):
        wait_until(lambda: len(logged(logger)) >= count, f"{count} lines of {logger}")
        found = logged(logger)
        assert len(found) == count
        return found

    return wait


@pytest.mark.parametrize("given", ["a", "0.9_Z-", "x" * 128])
def test_the_request_id_of_the_client_is_used(api, given):
    answer = api.client.get("/api/v1/jobs", headers={"X-Request-ID": given})
    assert answer.headers.get_list("x-request-id") == [given]


@every_row("given", ["", "a b", "x" * 129, "a\tb", "ü", '"', "a,b"])
def test_an_invalid_request_id_is_replaced(api, given):
    answer = api.client.get("/healthz", headers={"X-Request-ID": given.encode()})
    assert ID.fullmatch(answer.headers["x-request-id"])
    assert answer.headers["x-request-id"] != given


def test_every_request_gets_a_unique_id(api):
    assert len({api.client.get("/healthz").headers["x-request-id"] for _ in range(20)}) == 20


def test_every_response_has_a_request_id_including_errors(api, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("nobody expected this")

    monkeypatch.setattr("store.workers.page", fail)
    long = b"x" * (MAX_BODY_BYTES + 1)
    answers = {
        200: api.client.get("/api/v1/jobs"),
        401: api.anonymous.get("/api/v1/jobs"),
        404: api.client.get("/nowhere"),
        405: api.client.put("/healthz"),
        413: api.client.post("/api/v1/jobs", content=long),
        422: api.client.get("/api/v1/jobs?limit=0"),
        431: api.client.get("/healthz", headers={"x": "y" * 40_000}),
        500: api.client.get("/api/v1/workers"),
    }
    assert {status: answer.status_code for status, answer in answers.items()} == {
        status: status for status in answers
    }
    for answer in answers.values():
        assert ID.fullmatch(answer.headers["x-request-id"])


def test_a_request_is_logged_in_one_line(api, lines):
    began = time.monotonic()
    answer = api.client.get("/api/v1/jobs?limit=5", headers={"X-Request-ID": "mine"})
    [line] = lines(1)
    assert line["request_id"] == "mine"
    assert (line["method"], line["path"], line["status"]) == ("GET", "/api/v1/jobs", 200)
    assert 0 <= line["duration_ms"] <= 1000 * (time.monotonic() - began)
    assert re.fullmatch(r"[0-9a-f]{12}", line["token_id"])
    assert answer.status_code == 200


def test_a_request_without_a_token_is_logged_without_a_token_id(api, lines):
    api.anonymous.get("/api/v1/jobs")
    [line] = lines(1)
    assert line["status"] == 401
    assert "token_id" not in line


def test_no_secret_is_logged(api, lines):
    api.client.get(f"/api/v1/jobs?token={api.token}&q=hush")
    api.client.get(f"/api/v1/{api.token}")
    text = json.dumps(lines(2))
    assert api.token not in text
    assert "hush" not in text


def test_a_very_long_path_is_truncated_in_the_log(api, lines):
    api.client.get("/" + "x" * 10_000)
    assert len(lines(1)[0]["path"]) == request_id.MAX_LOGGED_PATH


def test_an_unexpected_error_is_logged_once_with_the_id_of_its_request(
    api, lines, logged, monkeypatch
):
    def fail(*_, **__):
        raise RuntimeError("nobody expected this")

    monkeypatch.setattr("store.workers.page", fail)
    answer = api.client.get("/api/v1/workers", headers={"X-Request-ID": "mine"})
    assert answer.status_code == 500
    assert "RuntimeError" not in answer.text
    [line] = lines(1, "server.http.request_id")
    assert line["request_id"] == "mine"
    assert "nobody expected this" in line["exc_info"]
    assert logged("uvicorn.error") == []


def test_log_lines_of_a_route_have_the_request_id(api, lines, monkeypatch):
    def log(*_, **__):
        logging.getLogger("inside").info("in a thread")
        return []

    monkeypatch.setattr("store.workers.page", log)
    api.client.get("/api/v1/workers", headers={"X-Request-ID": "mine"})
    assert [line["request_id"] for line in lines(1, "inside")] == ["mine"]
    logging.getLogger("inside").info("outside")
    assert "request_id" not in lines(2, "inside")[-1]


def test_a_submitted_job_stores_the_id_of_its_request(api, make_spec):
    spec = make_spec().to_json()
    answer = api.client.post("/api/v1/jobs", json=spec, headers={"X-Request-ID": "mine"})
    assert answer.json()["request_id"] == "mine"

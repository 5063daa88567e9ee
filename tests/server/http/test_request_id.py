import json
import logging
import re
import time

import pytest

from server.http import request_id
from server.http.limits import MAX_BODY_BYTES
from service.log_config import ContextFilter, JsonFormatter

ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: ids come before it."""
    return sqlite_url


@pytest.fixture
def logged(caplog):
    """What is logged so far, as it is written."""
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
    """So many lines, which come when an answer has gone out; that there are no more."""
    wait_until(
        lambda: not test_server.active_requests,
        "nothing more is logged of the tests before this one",
    )
    caplog.clear()

    def wait(count, logger="server.access"):
        wait_until(lambda: len(logged(logger)) >= count, f"{count} lines of {logger}")
        found = logged(logger)
        assert len(found) == count
        return found

    return wait


@pytest.mark.parametrize("given", ["a", "0.9_Z-", "x" * 128])
def test_the_id_of_a_request_is_that_of_the_client(api, given):
    answer = api.client.get("/api/v1/jobs", headers={"X-Request-ID": given})
    assert answer.headers.get_list("x-request-id") == [given]


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a\tb", "ü", '"', "a,b"])
def test_an_id_that_cannot_stand_in_a_log_is_replaced(api, given):
    told = api.client.get("/healthz", headers={"X-Request-ID": given.encode()})
    assert ID.fullmatch(told.headers["x-request-id"])
    assert told.headers["x-request-id"] != given


def test_every_request_gets_an_id_of_its_own(api):
    assert len({api.client.get("/healthz").headers["x-request-id"] for _ in range(20)}) == 20


def test_every_answer_carries_the_id_errors_included(api, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("nobody expected this")

    monkeypatch.setattr("server.routes.health.check", fail)
    long = b"x" * (MAX_BODY_BYTES + 1)
    answers = {
        200: api.client.get("/api/v1/jobs"),
        401: api.anonymous.get("/api/v1/jobs"),
        404: api.client.get("/nowhere"),
        405: api.client.put("/healthz"),
        413: api.client.post("/api/v1/jobs", content=long),
        422: api.client.get("/api/v1/jobs?limit=0"),
        431: api.client.get("/healthz", headers={"x": "y" * 40_000}),
        500: api.client.get("/readyz"),
    }
    assert {status: answer.status_code for status, answer in answers.items()} == {
        status: status for status in answers
    }
    for answer in answers.values():
        assert ID.fullmatch(answer.headers["x-request-id"])


def test_a_request_is_one_line_in_the_log(api, lines):
    began = time.monotonic()
    answer = api.client.get("/api/v1/jobs?limit=5", headers={"X-Request-ID": "mine"})
    [line] = lines(1)
    assert line["request_id"] == "mine"
    assert (line["method"], line["path"], line["status"]) == ("GET", "/api/v1/jobs", 200)
    assert 0 <= line["duration_ms"] <= 1000 * (time.monotonic() - began)
    assert re.fullmatch(r"[0-9a-f]{12}", line["token_id"])
    assert answer.status_code == 200


def test_a_stranger_is_logged_without_a_token(api, lines):
    api.anonymous.get("/api/v1/jobs")
    [line] = lines(1)
    assert line["status"] == 401
    assert "token_id" not in line


def test_no_secret_gets_into_the_log(api, lines):
    api.client.get(f"/api/v1/jobs?token={api.token}&q=hush")
    api.client.get(f"/api/v1/{api.token}")
    text = json.dumps(lines(2))
    assert api.token not in text
    assert "hush" not in text


def test_a_very_long_path_is_cut_in_the_log(api, lines):
    api.client.get("/" + "x" * 10_000)
    assert len(lines(1)[0]["path"]) == request_id.MAX_LOGGED_PATH


def test_an_unexpected_error_is_logged_once_with_the_id_of_its_request(
    api, lines, logged, monkeypatch
):
    def fail(*_, **__):
        raise RuntimeError("nobody expected this")

    monkeypatch.setattr("server.routes.health.check", fail)
    answer = api.client.get("/readyz", headers={"X-Request-ID": "mine"})
    assert answer.status_code == 500
    assert "RuntimeError" not in answer.text
    [line] = lines(1, "server.http.request_id")
    assert line["request_id"] == "mine"
    assert "nobody expected this" in line["exc_info"]
    assert logged("uvicorn.error") == []


def test_what_a_route_logs_carries_the_id_too(api, lines, monkeypatch):
    def tell(*_, **__):
        logging.getLogger("inside").info("in a thread")

    monkeypatch.setattr("server.routes.health.check", tell)
    api.client.get("/readyz", headers={"X-Request-ID": "mine"})
    assert [line["request_id"] for line in lines(1, "inside")] == ["mine"]
    logging.getLogger("inside").info("outside")
    assert "request_id" not in lines(2, "inside")[-1]


def test_a_posted_job_keeps_the_id_of_its_request(api, make_spec):
    spec = make_spec().to_json()
    answer = api.client.post("/api/v1/jobs", json=spec, headers={"X-Request-ID": "mine"})
    assert answer.json()["request_id"] == "mine"

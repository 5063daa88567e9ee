"""Hostile requests get a 4xx in problem+json, and change nothing."""

import json
import socket
import threading

import pytest
from sqlalchemy import func, select

from ampspec.documents.problems import MAX_PROBLEMS
from ampspec.jobs import State
from server.http.limits import MAX_HEADER_BYTES, MAX_HEADERS
from store.tables import Base
from tests.databases import ON_SQLITE
from tests.tables import every_row
from tests.waiting import DEADLINE_S

SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


@pytest.fixture
def job_id(make_job):
    return make_job(State.SUCCEEDED).id


@pytest.fixture
def assert_refused(api, job_id):
    """Assert that a response is a 4xx and that no table has changed."""

    tables = Base.metadata.sorted_tables
    counted = (select(func.count()).select_from(t).scalar_subquery().label(t.name) for t in tables)
    statement = select(*counted)

    def counts():
        with api.database.read() as session:
            return session.execute(statement).one()

    before = counts()

    def check(answer, *statuses):
        assert answer.status_code in (statuses or range(400, 500)), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code
        assert counts() == before
        return answer.json()

    return check


def nested(depth, bracket):
    opening, closing = {"[": ("[", "]"), "{": ('{"a":', "}")}[bracket]
    return opening * depth + "1" + closing * depth


BODIES = [
    "{" + ",".join(f'"{i:x}":1' for i in range(25_000)) + ',"z":1,"z":1}',
    "{" + ",".join(f'"{i:x}":"\\u0000"' for i in range(14_000)) + "}",
    nested(33, "["),
    nested(33, "{"),
    nested(100_000, "["),
    nested(40_000, "{"),
    '{"train": {"epochs": NaN}}',
    '{"train": {"epochs": -Infinity}}',
    '{"train": {"checkpoint_every_s": 1e999}}',
    '{"train": {"epochs": ' + "9" * 100_000 + "}}",
    '{"name": "a", "name": "b"}',
    b'{"name": "\xff\xfe"}',
    b'{"name": "\xed\xa0\x80"}',
    b"\x00",
    "\ufeff{}",
    '{"set": {"name": "\\u0000"}}',
    '{"set": {"name": "\\ud800"}}',
    '{"name": "\\udfff"}',
    '{"labels": {"\\u0000": "a"}}',
    '{"token": "\\u0000"}',
    '{"priority": 1e999}',
    '{"max_queued": ' + "9" * 30 + "}",
    "null",
    '"text"',
    "[[[]]]",
]


@every_row(
    "what",
    [
        *("POST jobs", "POST jobs/validate", "PATCH jobs/{id}", "POST jobs/{id}/clone"),
        *("POST tokens", "PUT projects/default", "POST session"),
    ],
)
def test_an_invalid_body_is_refused(api, assert_refused, job_id, what):
    method, path = what.format(id=job_id).split()
    headers = {"Content-Type": "application/json"}
    for body in BODIES:
        content = body.encode() if isinstance(body, str) else body
        answer = api.client.request(method, f"/api/v1/{path}", content=content, headers=headers)
        assert_refused(answer, 400, 401, 422)
        assert len(answer.content) < 200_000, body[:80]


@ON_SQLITE
def test_only_the_first_of_many_unknown_parameters_are_reported(api, assert_refused):
    query = "&".join(f"a{number:x}" for number in range(8000))
    answer = assert_refused(api.client.get(f"/api/v1/jobs?{query}"), 422)
    assert len(answer["errors"]) == MAX_PROBLEMS


@every_row(
    "part",
    [
        {"train": {"epochs": 10**9}},
        {"train": {"epochs": 10**300}},
        {"train": {"steps": -1}},
        {"train": {"accumulate": 1e308}},
        {"data": {"kind": "digits", "batch_size": 2**63}},
        {"model": {"kind": "mlp", "hidden": [65_537]}},
        {"model": {"kind": "mlp", "hidden": [8] * 10_000}},
        {"data": {"kind": "npz", "path": "../../etc/passwd"}},
        {"data": {"kind": "npz", "path": "/etc/passwd"}},
        {"data": {"kind": "text", "path": "\\\\host\\share"}, "model": {"kind": "lstm_lm"}},
        {"name": "x" * 201},
        {"labels": {str(n): "" for n in range(65)}},
        {"labels": {"x" * 65: ""}},
        {"runtime": {"queue": "../x"}},
        {"runtime": {"queue": "x" * 64}},
        {"runtime": {"timeout_s": 1e300}},
        {"runtime": {"max_attempts": 10**9}},
        {"runtime": {"priority": -1}},
        {"precision": {"overrides": [{"layers": "(", "dtype": "float32"}]}},
    ],
)
def test_a_spec_with_values_out_of_range_is_refused(api, assert_refused, job_id, part):
    assert_refused(api.client.post("/api/v1/jobs", json={**SPEC, **part}), 422)
    assert_refused(api.client.post(f"/api/v1/jobs/{job_id}/clone", json={"set": part}), 422)


@ON_SQLITE
@pytest.mark.parametrize("size", [10 * 2**20, 256 * 1024 + 1])
def test_a_body_above_the_limit_is_refused(api, assert_refused, size):
    assert_refused(api.client.post("/api/v1/jobs", content=b" " * size), 413)


@ON_SQLITE
@every_row(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json", ""]
)
def test_a_body_with_another_content_type_is_refused(api, assert_refused, job_id, kind):
    headers = {"Content-Type": kind}
    for method, path in [("POST", "jobs"), ("PATCH", f"jobs/{job_id}"), ("POST", "tokens")]:
        answer = api.client.request(method, f"/api/v1/{path}", content=b"{}", headers=headers)
        assert assert_refused(answer, 415)["code"] == "unsupported_media_type"


@ON_SQLITE
@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/x.y+json"]
)
def test_every_json_content_type_is_accepted(api, kind):
    headers = {"Content-Type": kind}
    answer = api.client.post("/api/v1/jobs", content=json.dumps(SPEC), headers=headers)
    assert answer.status_code == 201


NAMES = [
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "..%5c..%5cwindows",
    "%00",
    "a%00b",
    "%ff%fe",
    "%ed%a0%80",
    "%0d%0aSet-Cookie:x=y",
    "'%20OR%201=1--",
    "%25%5f",
    "x" * 3000,
    "$(id)",
    "%F0%9F%8E%93",
]


@every_row(
    "what",
    [
        *("GET jobs/{}", "PATCH jobs/{}", "DELETE jobs/{}", "POST jobs/{}/cancel"),
        *("POST jobs/{}/clone", "GET jobs/{}/steps", "GET jobs/{}/events", "GET jobs/{}/logs"),
        *("GET jobs/{}/attempts", "GET jobs/{}/artifacts", "GET jobs/{}/artifacts/x"),
        "GET jobs/{}/allocations",
        *("GET jobs/{id}/artifacts/{}", "GET workers/{}", "POST workers/{}/drain"),
        *("DELETE tokens/{}", "PUT projects/{}"),
    ],
)
def test_a_hostile_id_in_a_path_is_refused(api, assert_refused, job_id, what):
    method, path = what.split()
    body = {} if method in ("PATCH", "PUT") else None
    for name in NAMES:
        filled_path = path.replace("{id}", job_id).replace("{}", name)
        answer = api.client.request(method, f"/api/v1/{filled_path}", json=body)
        assert_refused(answer, 404, 405, 422)
        assert "set-cookie" not in answer.headers


@ON_SQLITE
def test_headers_that_are_too_long_are_refused(api, assert_refused):
    headers = {"X-Long": "x" * MAX_HEADER_BYTES}
    for client in (api.client, api.anonymous):
        assert assert_refused(client.get("/api/v1/jobs", headers=headers), 431)["code"]
    assert assert_refused(api.anonymous.get("/healthz", headers=headers), 431)["code"]


@ON_SQLITE
def test_headers_that_are_too_many_are_refused(api, assert_refused):
    headers = [(f"X-{number}", "") for number in range(MAX_HEADERS)]
    assert assert_refused(api.client.get("/api/v1/jobs", headers=headers), 431)


@ON_SQLITE
def test_headers_within_the_limits_are_read(api):
    headers = [(f"X-{number}", "x" * 300) for number in range(MAX_HEADERS - 10)]
    assert api.client.get("/api/v1/jobs", headers=headers).status_code == 200


# ---- Raw HTTP


@pytest.fixture(scope="module")
def raw_port():
    """The port of a server with the HTTP protocol of `ampserver api` and an empty application."""
    import uvicorn

    from server.http.serving.http_protocol import ProblemProtocol

    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application, http=ProblemProtocol, lifespan="off", log_config=None, ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(DEADLINE_S)
    listener.close()


def answer_to(port, *pieces):
    """The status, the headers and the body of the response to some bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except OSError:
            pass  # refused before the last chunk
        received = b""
        try:
            while piece := connection.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.lower(), body


@every_row(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS on a plain HTTP port
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nno colon here\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\x00c\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_malformed_http_gets_problem_json(raw_port, request_bytes):
    status, head, body = answer_to(raw_port, request_bytes)
    assert status == 400
    assert b"content-type: application/problem+json" in head
    assert b"connection: close" in head
    assert json.loads(body)["code"] == "malformed_http"


def test_endless_headers_are_refused(raw_port):
    endless = (b"X-%d: %s\r\n" % (number, b"x" * 1000) for number in range(1000))
    status, head, body = answer_to(raw_port, b"GET / HTTP/1.1\r\n", *endless)
    assert status == 431
    assert b"content-type: application/problem+json" in head
    assert json.loads(body)["code"] == "headers_too_large"


def test_a_connection_serves_several_requests(raw_port):
    head = b"POST / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 20_000 + b"\r\n"
    one = head + b"Content-Length: 70000\r\n\r\n" + b"x" * 70_000
    last = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    _, head, body = answer_to(raw_port, *[one] * 5, last)
    assert (head + body.lower()).count(b"http/1.1 204") == 6

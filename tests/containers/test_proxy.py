"""Requests through the proxy: TLS, two servers, streams, downloads, addresses of clients."""

import hashlib
import json

import httpx
import pytest

from ampclient import Client
from tests.containers.conftest import PORT, SERVER_ADDRESS, SITE, USER_ADDRESS
from tests.containers.jobs import DIGITS, ENDLESS, OpenStream, steps_of
from tests.waiting import DEADLINE_S, wait_until

FORGED = "203.0.113.77"


@pytest.fixture
def https(trusted):
    """Requests over TLS without a token."""
    with httpx.Client(base_url=f"https://{SITE}", verify=trusted, timeout=DEADLINE_S) as http:
        yield http


def test_a_browser_signs_in_over_tls_and_gets_a_secure_cookie(https, token):
    origin = {"Origin": f"https://{SITE}"}
    signed_in = https.post("/api/v1/session", json={"token": token}, headers=origin)
    assert signed_in.is_success, signed_in.text
    assert {"Secure", "HttpOnly"} <= set(signed_in.headers["Set-Cookie"].split("; "))
    assert https.get("/api/v1/session").json()["token_name"] == "alice"
    page = https.get("/")
    assert page.is_success
    assert page.headers["Content-Type"].startswith("text/html")


def test_a_client_that_does_not_know_the_authority_refuses_the_certificate(stack):
    with pytest.raises(httpx.ConnectError, match="certificate"):
        httpx.get(f"https://{SITE}/healthz", timeout=DEADLINE_S)


def test_plain_http_is_redirected_to_tls(stack):
    response = httpx.get(f"http://{SITE}/healthz", timeout=DEADLINE_S)
    assert response.status_code == 308
    assert response.headers["Location"] == f"https://{SITE}/healthz"


def test_the_port_without_tls_is_not_reachable_from_another_machine(stack):
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{SERVER_ADDRESS}:{PORT}/healthz", timeout=DEADLINE_S)


def test_a_job_is_submitted_streamed_and_downloaded_through_two_servers(stack, client, tmp_path):
    job = client.jobs.submit(DIGITS)
    steps = steps_of([*job.stream()])
    assert steps.tolist() == [*range(DIGITS["train"]["steps"])]
    job = job.refresh()
    assert job.state == "succeeded"
    by_path = {artifact.path: artifact for artifact in job.artifacts()}
    assert "attempt-1/model.keras" in by_path
    for file in job.download(to=tmp_path):
        artifact = by_path.pop(str(file.relative_to(tmp_path)))
        assert hashlib.sha256(file.read_bytes()).hexdigest() == artifact.sha256
    assert not by_path
    for server in stack.containers("server"):
        records = [json.loads(line) for line in server.logs().splitlines()]
        assert any(record.get("path", "").startswith("/api/v1/jobs") for record in records)


@pytest.mark.parametrize(
    "headers",
    [{}, {"X-Forwarded-For": FORGED}, {"X-Forwarded-For": f"{FORGED}, 127.0.0.1"},
     {"Forwarded": f"for={FORGED}", "X-Real-IP": FORGED}],
    ids=["no headers", "forged", "forged chain", "other headers"],
)  # fmt: skip
def test_the_audit_log_has_the_address_of_the_client(client, token, trusted, headers):
    with (
        httpx.Client(verify=trusted, headers=headers, timeout=DEADLINE_S) as http,
        Client(f"https://{SITE}", token, http_client=http) as forging,
    ):
        job = forging.jobs.submit(DIGITS)
    (entry,) = [entry for entry in client.audit(action="job.submit") if entry.target == job.id]
    assert entry.address == USER_ADDRESS


def test_streams_go_on_while_the_servers_are_restarted_one_by_one(stack, client):
    job = client.jobs.submit(ENDLESS)
    streams = [OpenStream(job) for _ in range(4)]
    for server in stack.containers("server"):
        for stream in streams:
            stream.wait_for_more()
        started = server.state["StartedAt"]
        server.restart()
        assert server.state["StartedAt"] != started
        wait_until(server.healthy)
        for stream in streams:
            stream.wait_for_more()
    job.cancel()
    for stream in streams:
        stream.check_complete()
    assert len({tuple(steps_of(stream.blocks)) for stream in streams}) == 1

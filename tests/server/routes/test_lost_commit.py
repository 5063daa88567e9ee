"""Every changing route, while the response to its COMMIT is lost between PostgreSQL and server."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from sqlalchemy import func, make_url, select

from ampclient import Client
from ampspec.jobs import State
from server.app import create_app
from server.settings import Settings
from store import workers
from store.access import tokens
from store.jobs import jobs
from store.tables import AuditEntry, Token
from tests.chaos.proxy import Proxy
from tests.waiting import DEADLINE_S, wait_until

SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


@dataclass(frozen=True)
class Change:
    """A request that changes something, the state of its job, and its action in the audit log."""

    action: str
    method: str
    path: str
    state: State = State.QUEUED
    body: Any = None


CHANGES = [
    Change("job.submit", "POST", "/jobs", body=SPEC),
    Change("job.clone", "POST", "/jobs/{job}/clone"),
    Change("job.edit", "PATCH", "/jobs/{job}", body={"name": "other"}),
    Change("job.delete", "DELETE", "/jobs/{job}", State.FAILED),
    Change("job.cancel", "POST", "/jobs/{job}/cancel"),
    Change("job.pause", "POST", "/jobs/{job}/pause"),
    Change("job.resume", "POST", "/jobs/{job}/resume", State.PAUSED),
    Change("job.retry", "POST", "/jobs/{job}/retry", State.FAILED),
    Change("worker.drain", "POST", "/workers/w/drain"),
    Change("token.create", "POST", "/tokens", body={"name": "new", "role": "admin"}),
    Change("token.revoke", "DELETE", "/tokens/{token}"),
    Change("project.update", "PUT", "/projects/new", body={"max_queued": 3}),
]


@pytest.fixture
def database_url(postgres_url):
    """PostgreSQL only: SQLite has no response to COMMIT that could be lost."""
    return postgres_url


@pytest.fixture
def postgres_proxy(postgres_url):
    """The proxy between the server and PostgreSQL."""
    address = make_url(postgres_url)
    host = address.query.get("host") or address.host

    def connect():
        if host and host.startswith("/"):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(f"{host}/.s.PGSQL.{address.port or 5432}")
            return connection
        return socket.create_connection((host or "127.0.0.1", address.port or 5432))

    proxy = Proxy(connect)
    yield proxy
    proxy.close()


@pytest.fixture
def server(*, api, test_server, postgres_proxy, dispatcher, postgres_url, tmp_path):
    """The server of `api`, connected to PostgreSQL through the proxy."""
    address = make_url(postgres_url)
    address = address.set(host="127.0.0.1", port=postgres_proxy.port, query={})
    url = address.render_as_string(hide_password=False)
    app = create_app(
        Settings(database_url=url, redis_url="redis://127.0.0.1:1/0", data_dir=tmp_path / "data"),
        dispatcher=dispatcher,
        reconcile=False,
    )
    test_server.app = app
    yield api
    app.state.services.database.close()


@pytest.fixture
def prepared(server, make_job):
    """Create all that a change needs; returns its path."""

    def prepare(change):
        with server.database.write() as session:
            known = {"hostname": "h", "pid": 1, "version": "1", "queues": ["none"]}
            workers.register(session, "w", slots=1, **known)
            secret = tokens.create(session, "to be revoked")
            token = tokens.get_by_secret(session, secret).id
        job = make_job(change.state).id if "{job}" in change.path else ""
        return "/api/v1" + change.path.format(job=job, token=token)

    return prepare


@pytest.fixture
def drop_commit_response(server, postgres_proxy) -> Callable[[], None]:
    """Drop the response to the next COMMIT."""

    def drop_commit_response():
        assert (
            server.client.get("/api/v1/session").status_code == 200
        )  # now cached by the authenticator
        postgres_proxy.drop_answer_to(b"COMMIT\x00")  # and not BEGIN … READ COMMITTED

    return drop_commit_response


def recorded_effects(server, action):
    with server.database.read() as session:
        return session.scalar(
            select(func.count()).select_from(AuditEntry).where(AuditEntry.action == action)
        )


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.action)
def test_a_lost_commit_response_is_outcome_unknown_and_a_repeated_request_succeeds(
    server, prepared, drop_commit_response, postgres_proxy, change
):
    """Fails if the response is 503, which says that nothing was done, or if no key is stored."""
    path = prepared(change)

    def send():
        headers = {"Idempotency-Key": "one"}
        return server.client.request(change.method, path, json=change.body, headers=headers)

    drop_commit_response()
    unknown = send()
    wait_until(postgres_proxy.answer_dropped.is_set, "the response to COMMIT is dropped")
    assert (unknown.status_code, unknown.json()["code"]) == (504, "outcome_unknown")
    assert "Retry-After" not in unknown.headers
    assert "Idempotency-Key" in unknown.json()["detail"]
    wait_until(lambda: recorded_effects(server, change.action) == 1, "the COMMIT is executed")
    again = send()
    assert again.is_success, again.text
    assert again.headers["Idempotency-Replayed"] == "true"
    assert send().content == again.content
    assert recorded_effects(server, change.action) == 1


def test_sign_in_also_reports_a_lost_commit_response(server, drop_commit_response):
    drop_commit_response()
    answer = server.anonymous.post("/api/v1/session", json={"token": server.token})
    assert (answer.status_code, answer.json()["code"]) == (504, "outcome_unknown")


@pytest.fixture
def sdk(server, monkeypatch):
    """An SDK client that retries however long the first response took."""
    monkeypatch.setattr("ampclient._http.retry.time", SimpleNamespace(monotonic=lambda: 0.0))
    with Client(server.url, server.token) as client:
        yield client


def test_the_sdk_creates_one_token_and_gets_its_secret(server, sdk, drop_commit_response):
    """Fails without a key: two tokens are created, and the secret of one is never returned."""
    drop_commit_response()
    made = sdk.tokens.create("new", role="admin")
    with server.database.read() as session:
        named = session.scalars(select(Token).where(Token.name == "new")).all()
    assert [token.id for token in named] == [made.id]
    with Client(server.url, made.secret) as newcomer:
        assert newcomer.session().token_id == made.id


@pytest.mark.parametrize(
    ("state", "name", "final_state"),
    [
        (State.PAUSED, "resume", State.QUEUED),
        (State.FAILED, "retry", State.QUEUED),
        (State.FAILED, "delete", None),
        (State.QUEUED, "cancel", State.CANCELLED),
        (State.QUEUED, "pause", State.PAUSED),
    ],
)
def test_an_action_of_the_sdk_is_applied_once_and_raises_no_error(
    *, server, sdk, make_job, drop_commit_response, state, name, final_state
):
    """Fails without a key: the retry of a completed action gets 409 or 404."""
    job = sdk.jobs.get(make_job(state).id)
    drop_commit_response()
    changed = getattr(job, name)()
    with server.database.read() as session:
        row = jobs.get(session, job.id)  # None in the trash, too
        assert (row and row.state) == final_state
    assert changed is None or changed.state is final_state
    assert recorded_effects(server, f"job.{name}") == 1


def test_a_failure_before_the_commit_gets_503_and_changes_nothing(
    server, drop_commit_response, postgres_proxy, prepared
):
    path = prepared(CHANGES[0])
    drop_commit_response()
    postgres_proxy.drop_answer_to(b"INSERT INTO jobs")
    answer = server.client.post(path, json=SPEC)
    wait_until(postgres_proxy.answer_dropped.is_set, "the response to INSERT is dropped")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    assert recorded_effects(server, "job.submit") == 0


def test_a_repeated_request_returns_the_secret_only_to_the_creator(server, client_with_role):
    made = {"name": "new"}
    headers = {"Idempotency-Key": "one"}
    first = server.client.post("/api/v1/tokens", json=made, headers=headers)
    browser = httpx.Client(base_url=server.url, headers={"Origin": server.url}, timeout=DEADLINE_S)
    browser.post("/api/v1/session", json={"token": server.token}).raise_for_status()
    # The same token, but another secret: that of the session.
    answer = browser.post("/api/v1/tokens", json=made, headers=headers)
    browser.close()
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert first.json()["id"] in answer.json()["detail"]
    other = client_with_role("admin").post("/api/v1/tokens", json=made, headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")

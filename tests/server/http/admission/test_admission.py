"""Requests that hang, or whose clients have left, leave the others their threads."""

import gc
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest
from sqlalchemy import text

from ampspec.jobs import State
from ampspec.telemetry.steps import codec
from server.http.admission.request_groups import GROUPS, LISTS, group_of
from store.cancellation import Cancellation
from store.database import Database, StatementLimits
from store.listing import search
from store.telemetry import ingest
from tests.databases import ON_POSTGRESQL, ON_SQLITE
from tests.waiting import DEADLINE_S, wait_until

ABANDONED = 14
LIST = "/api/v1/jobs?sort=name"
RUNNING = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def send_and_leave(api, path=LIST, method="GET"):
    """Send a request, and return the function that closes its connection without reading."""
    address = urlsplit(api.url)
    connection = socket.create_connection((address.hostname, address.port))
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n\r\n"
    connection.sendall(head.encode())
    return connection.close


@pytest.fixture
def lock_jobs(database):
    """Lock the table of jobs, as a migration does, until the test ends."""
    connection = database.engine.connect()
    connection.execute(text("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE"))
    yield
    connection.close()


@pytest.fixture
def blocked_queries(database):
    """The number of queries that wait for a lock."""

    def count():
        with database.engine.connect() as connection:
            return connection.execute(text(f"SELECT count(*) {RUNNING}")).scalar_one()

    return count


class SlowLists:
    """How many lists have begun, and what they wait for."""

    def __init__(self):
        self.begun = 0
        self.may_go_on = threading.Event()


@pytest.fixture
def slow_lists(monkeypatch):
    """Lists wait until the test lets them go on."""
    slow, page = SlowLists(), search.page

    def slow_page(*arguments, **named):
        slow.begun += 1
        assert slow.may_go_on.wait(DEADLINE_S)
        return page(*arguments, **named)

    monkeypatch.setattr(search, "page", slow_page)
    yield slow
    slow.may_go_on.set()


@ON_POSTGRESQL
@pytest.mark.usefixtures("lock_jobs")
def test_lists_that_clients_gave_up_on_free_their_threads(api, blocked_queries):
    leave = [send_and_leave(api) for _ in range(ABANDONED)]
    wait_until(lambda: blocked_queries() == LISTS.per_owner, "the lists wait for the lock")
    for close in leave:
        close()
    wait_until(lambda: blocked_queries() == 0, "their queries have ended, with the lock still held")


@ON_POSTGRESQL
@pytest.mark.usefixtures("lock_jobs")
def test_a_lock_on_jobs_leaves_sign_in_and_health_alone(api, blocked_queries):
    leave = [send_and_leave(api) for _ in range(ABANDONED)]
    wait_until(lambda: blocked_queries() == LISTS.per_owner, "the lists wait for the lock")
    assert api.anonymous.get("/readyz").status_code == 200
    signed_in = api.anonymous.post("/api/v1/session", json={"token": api.token})
    assert signed_in.status_code == 201
    assert api.client.get("/api/v1/version").status_code == 200
    for close in leave:
        close()


@ON_POSTGRESQL
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/jobs"),
        ("GET", "/api/v1/jobs/0123456789ab"),
        ("GET", "/api/v1/jobs/0123456789ab/steps"),
        ("POST", "/api/v1/jobs"),
        ("POST", "/api/v1/jobs/0123456789ab/cancel"),
    ],
)
@pytest.mark.usefixtures("lock_jobs")
def test_a_lock_on_jobs_is_a_503_and_no_hang(api, database_url, method, path):
    limited = Database(database_url, limits=StatementLimits(lock_s=0.05))
    services = api.app.state.services
    for part in (services, services.submitter, services.job_reader):
        name = "_database" if part is services.submitter else "database"
        object.__setattr__(part, name, limited)
    spec = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}} if path.endswith("jobs") else {}
    response = api.client.request(method, path, json=spec if method == "POST" else None)
    limited.close()
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert int(response.headers["Retry-After"]) > 0


@ON_SQLITE
def test_one_token_leaves_threads_for_the_lists_of_others(api, slow_lists, client_with_role):
    other = client_with_role("member", "other")
    with ThreadPoolExecutor(9) as pool:
        busy = [pool.submit(api.client.get, LIST) for _ in range(8)]
        wait_until(lambda: slow_lists.begun == LISTS.per_owner, "the token has all that it gets")
        listed = pool.submit(other.get, LIST)
        wait_until(lambda: slow_lists.begun == LISTS.per_owner + 1, "the other one is served")
        assert not any(one.done() for one in busy)
        # Reads and changes have threads of their own.
        assert api.client.get("/api/v1/session").status_code == 200
        assert api.client.put("/api/v1/projects/p", json=_quotas()).status_code == 200
        slow_lists.may_go_on.set()
        assert listed.result().status_code == 200


def _quotas():
    return {"max_queued": None, "max_running": None}


@ON_SQLITE
def test_a_list_that_waits_for_its_turn_is_forgotten_when_its_client_leaves(
    api, slow_lists, test_server
):
    leave = [send_and_leave(api) for _ in range(ABANDONED)]
    wait_until(lambda: slow_lists.begun == LISTS.per_owner, "the first lists run")
    for close in leave:
        close()
    # Only those remain whose threads cannot be interrupted where they are.
    wait_until(lambda: test_server.active_requests == LISTS.per_owner, "the others are gone")
    assert slow_lists.begun == LISTS.per_owner


@ON_SQLITE
def test_reading_steps_stops_between_two_blocks_when_the_client_leaves(
    api, test_server, make_job, make_block, monkeypatch
):
    job, decoded, may_go_on = make_job(State.RUNNING), [], threading.Event()
    with api.database.write() as session:
        for number in range(20):
            block = make_block(number, 1)
            ingest.append(session, job.id, 1, [block], entries_written=number)
    decode = codec.decode

    def slow_decode(*arguments, **options):
        decoded.append(1)
        assert may_go_on.wait(DEADLINE_S)
        return decode(*arguments, **options)

    monkeypatch.setattr(codec, "decode", slow_decode)
    leave = send_and_leave(api, f"/api/v1/jobs/{job.id}/steps")
    wait_until(lambda: decoded, "the first block is decoded")
    leave()
    wait_until(lambda: any(work.is_cancelled for work in _cancellations()), "it is cancelled")
    may_go_on.set()
    wait_until(lambda: not test_server.active_requests, "the request has ended")
    assert len(decoded) == 1


def _cancellations():
    return [one for one in gc.get_objects() if type(one) is Cancellation]


@ON_SQLITE
def test_many_scrapes_and_health_checks_take_one_thread(api, monkeypatch):
    calls, may_go_on = [], threading.Event()
    services = api.app.state.services
    for shared in (services.metrics.rendered, services.readiness):
        monkeypatch.setattr(shared, "_compute", _blocking(shared._compute, calls, may_go_on))
    paths = ["/metrics", "/readyz"] * 20
    with (
        ThreadPoolExecutor(len(paths)) as pool,
        httpx.Client(base_url=api.url, headers=api.client.headers, timeout=DEADLINE_S) as client,
    ):
        scrapes = [pool.submit(client.get, path) for path in paths]
        wait_until(lambda: len(calls) == 2, "one of each runs")
        assert api.client.get("/api/v1/jobs").status_code == 200
        assert not any(scrape.done() for scrape in scrapes)
        may_go_on.set()
        assert {scrape.result().status_code for scrape in scrapes} == {200}
    assert len(calls) <= 4  # a request that came late may have started another call


def _blocking(compute, calls, may_go_on):
    def blocked():
        calls.append(compute)
        assert may_go_on.wait(DEADLINE_S)
        return compute()

    return blocked


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/api/v1/session", "sign-in"),
        ("GET", "/api/v1/jobs", "lists"),
        ("GET", "/api/v1/audit", "lists"),
        ("GET", "/api/v1/datasets/birds", "lists"),
        ("GET", "/api/v1/jobs/0123456789ab/events", "reads"),
        ("GET", "/api/v1/jobs/0123456789ab/steps", "steps"),
        ("GET", "/api/v1/compare", "steps"),
        ("GET", "/api/v1/jobs/0123456789ab/artifacts/model.keras", "downloads"),
        ("POST", "/api/v1/studies/estimate", "plans"),
        ("POST", "/api/v1/jobs/0123456789ab/cancel", "changes"),
    ],
)
def test_requests_that_cost_alike_share_threads(method, path, name):
    group = group_of(method, path)
    assert group in GROUPS
    assert group.name == name


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/assets/main.js"),
        ("PATCH", "/api/v1/datasets/birds/uploads/1"),
        ("PUT", "/api/v1/files/bundle/ab"),
        ("POST", "/api/v1/datasets/birds/uploads/1/complete"),
    ],
)
def test_what_waits_for_clients_or_is_shared_takes_no_slot(method, path):
    assert group_of(method, path) is None


@pytest.mark.parametrize("group", GROUPS, ids=[group.name for group in GROUPS])
def test_a_single_owner_never_holds_all_threads_of_a_group(group):
    assert 0 < group.per_owner < group.threads

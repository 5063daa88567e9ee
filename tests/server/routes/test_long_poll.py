"""Requests that are held until jobs have changed or ended. The API of these tests has no Redis."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from ampspec.jobs import State
from server.http.streaming.stream_limits import OpenStreams, StreamLimit
from server.jobs import job_watcher
from store import workers
from store.jobs import attempts, jobs
from store.telemetry import ingest
from tests.tables import every_row
from tests.waiting import DEADLINE_S

LONG = 60
"""Longer than the tests last: a response that comes earlier has been sent for a change."""


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: what the requests read has its own tests on both databases."""
    return sqlite_url


@pytest.fixture(autouse=True)
def end_all_requests(api, wait_until, monkeypatch):
    """Poll quickly, and end every request after the test, before its database is closed."""
    monkeypatch.setattr(job_watcher, "POLL_S", 0.05)
    yield
    streams = api.app.state.services.streams
    streams.shutting_down.set()
    wait_until(lambda: streams._open == 0)


@pytest.fixture
def waiting(api, wait_until):
    """Send a request that is held; returns a function that returns its response."""
    streams = api.app.state.services.streams
    pool = ThreadPoolExecutor(250)

    def send(path, *, etag=None, client=None, **query):
        headers = {} if etag is None else {"If-None-Match": etag}
        held = streams.waiting.count
        call = pool.submit(
            (client or api.client).get,
            f"/api/v1/jobs{path}",
            params={"wait": LONG, **query},
            headers=headers,
        )
        wait_until(lambda: streams.waiting.count > held or call.done())
        assert not call.done(), call.result().text
        return lambda: call.result(DEADLINE_S)

    yield send
    streams.shutting_down.set()
    pool.shutdown()


@pytest.fixture
def etag_of(api):
    def read(path, **query):
        return api.client.get(f"/api/v1/jobs{path}", params=query).headers["ETag"]

    return read


def append(api, job, first_step, make_block, written=0):
    with api.database.write() as session:
        assert ingest.append(
            session, job.id, 1, [make_block(first_step, 5)], entries_written=written
        )


def end(api, job):
    with api.database.write() as session:
        assert attempts.mark_succeeded(session, job.id, 1, {"steps": 100})


def test_a_request_is_held_until_the_job_changes(api, make_job, make_block, waiting, etag_of):
    job = make_job(State.RUNNING)
    etag = etag_of(f"/{job.id}")
    response = waiting(f"/{job.id}", etag=etag)
    append(api, job, 0, make_block)
    changed = response()
    assert changed.status_code == 200
    assert changed.json()["step"] == 5
    assert changed.headers["ETag"] != etag


@every_row("headers", [{}, {"If-None-Match": '"another"'}])
def test_without_the_etag_of_the_current_state_there_is_nothing_to_wait_for(api, make_job, headers):
    job = make_job(State.RUNNING)
    response = api.client.get(f"/api/v1/jobs/{job.id}", params={"wait": LONG}, headers=headers)
    assert (response.status_code, response.json()["state"]) == (200, "running")


def test_a_job_that_does_not_change_gets_304_when_the_time_is_over(api, make_job, etag_of):
    job = make_job(State.RUNNING)
    headers = {"If-None-Match": etag_of(f"/{job.id}")}
    response = api.client.get(f"/api/v1/jobs/{job.id}", params={"wait": 0.2}, headers=headers)
    assert response.status_code == 304
    assert api.app.state.services.streams.waiting.count == 0


def test_a_request_for_the_end_is_held_while_the_job_trains(api, make_job, make_block, waiting):
    job = make_job(State.RUNNING)
    reads = []
    reader = api.app.state.services.job_reader
    read_rows = reader._job_batches._handle_batch
    reader._job_batches._handle_batch = lambda ids: reads.append(ids) or read_rows(ids)
    response = waiting(f"/{job.id}", until="terminal")
    for number in range(4):
        append(api, job, 5 * number, make_block, written=number)
    end(api, job)
    assert response().json()["state"] == "succeeded"
    # At the beginning, once the request is counted, and at the end: not for each block of steps.
    assert len(reads) == 3


def test_the_time_that_a_request_waits_is_no_duration_of_the_server(api, make_job):
    """Otherwise held requests would look like a slow server."""
    job = make_job(State.RUNNING)
    query = {"wait": 1, "until": "terminal"}
    assert api.client.get(f"/api/v1/jobs/{job.id}", params=query).status_code == 200
    times = api.app.state.services.metrics.request_times
    [child] = [
        metric
        for labels, metric in times._metrics.items()
        if labels == ("GET", "/api/v1/jobs/{job_id}", "200")
    ]
    assert child._sum.get() < 1


def test_a_request_for_the_end_gets_the_present_state_when_the_time_is_over(api, make_job):
    job = make_job(State.RUNNING)
    query = {"wait": 0.2, "until": "terminal"}
    response = api.client.get(f"/api/v1/jobs/{job.id}", params=query)
    assert (response.status_code, response.json()["state"]) == (200, "running")


@every_row("state", [State.SUCCEEDED, State.FAILED, State.CANCELLED])
def test_a_job_that_has_ended_is_sent_at_once(api, make_job, state):
    job = make_job(state)
    query = {"wait": LONG, "until": "terminal"}
    assert api.client.get(f"/api/v1/jobs/{job.id}", params=query).json()["state"] == state


def test_a_queued_job_is_sent_when_it_waits_for_another_reason(
    api, make_job, waiting, etag_of, monkeypatch
):
    monkeypatch.setattr("server.jobs.long_poll.QUEUED_POLL_S", 0.05)
    job = make_job()
    before = api.client.get(f"/api/v1/jobs/{job.id}")
    response = waiting(f"/{job.id}", etag=before.headers["ETag"])
    facts = {"hostname": "a", "pid": 1, "version": "1", "slots": 1}
    with api.database.write() as session:
        workers.register(session, "w1", queues=["default"], **facts)
    assert response().json()["waiting"] != before.json()["waiting"]


def test_a_notification_is_enough(
    *, api, make_job, make_block, waiting, etag_of, monkeypatch, wait_until
):
    job = make_job(State.RUNNING)
    watcher = api.app.state.services.job_watcher
    etag = etag_of(f"/{job.id}")
    response = waiting(f"/{job.id}", etag=etag)
    wait_until(lambda: job.id in watcher._versions)
    monkeypatch.setattr(job_watcher, "POLL_S", LONG)
    append(api, job, 0, make_block)
    loop = watcher._task.get_loop()
    loop.call_soon_threadsafe(watcher.notify, job.id)
    assert response().json()["step"] == 5


def test_several_jobs_are_read_with_one_request(api, make_job):
    running, queued, hidden = make_job(State.RUNNING), make_job(), make_job(project="other")
    client_ids = f"{running.id},{queued.id},{hidden.id},000000000000"
    page = api.client.get("/api/v1/jobs", params={"id": client_ids}).json()
    by_id = {job["id"]: job for job in page["items"]}
    assert set(by_id) == {running.id, queued.id, hidden.id}  # an admin sees all projects
    assert page["next_cursor"] is None
    assert "queue 'default'" in by_id[queued.id]["waiting"]
    assert by_id[running.id]["waiting"] is None


def test_a_list_by_ids_shows_only_the_jobs_of_the_tokens_project(api, make_job, client_with_role):
    mine, other = make_job(), make_job(project="other")
    client = client_with_role("viewer")
    page = client.get("/api/v1/jobs", params={"id": f"{mine.id},{other.id}"}).json()
    assert [job["id"] for job in page["items"]] == [mine.id]


def test_a_job_of_another_project_is_not_waited_for(api, make_job, client_with_role):
    """Otherwise the time of the response would say when it ends."""
    other = make_job(State.RUNNING, project="other")
    query = {"id": other.id, "wait": LONG, "until": "terminal"}
    response = client_with_role("viewer").get("/api/v1/jobs", params=query)
    assert response.json()["items"] == []


def test_a_list_is_held_until_one_of_its_jobs_changes(api, make_job, make_block, waiting, etag_of):
    first, second = make_job(State.RUNNING), make_job(State.RUNNING)
    ids = f"{first.id},{second.id}"
    response = waiting("", etag=etag_of("", id=ids), id=ids)
    append(api, second, 0, make_block)
    assert {job["step"] for job in response().json()["items"]} == {0, 5}


def test_a_list_is_held_until_all_of_its_jobs_have_ended(api, make_job, waiting, wait_until):
    first, second = make_job(State.RUNNING), make_job(State.RUNNING)
    response = waiting("", id=f"{first.id},{second.id}", until="terminal")
    watcher = api.app.state.services.job_watcher
    end(api, first)
    wait_until(lambda: first.id in watcher._versions and watcher.end_is_reached([first.id]))
    assert api.app.state.services.streams.waiting.count == 1
    end(api, second)
    assert {job["state"] for job in response().json()["items"]} == {"succeeded"}


def test_more_requests_wait_than_there_are_threads_for_reads(api, make_job, waiting, wait_until):
    """Neither threads nor database connections are held: other requests are answered."""
    job = make_job(State.RUNNING)
    single = [waiting(f"/{job.id}", until="terminal") for _ in range(20)]
    lists = [waiting("", id=job.id, until="terminal") for _ in range(20)]
    assert api.client.get(f"/api/v1/jobs/{job.id}/events").status_code == 200
    assert api.client.get("/api/v1/jobs").status_code == 200
    wait_until(lambda: api.app.state.services.database.engine.pool.checkedout() == 0)
    end(api, job)
    assert {response().json()["state"] for response in single} == {"succeeded"}
    assert {response().json()["items"][0]["state"] for response in lists} == {"succeeded"}


def test_the_requests_of_a_token_are_limited(api, make_job, waiting, client_with_role):
    api.app.state.services.streams.waiting = OpenStreams(
        StreamLimit("waiting requests", total=4, per_token=1, per_address=2)
    )
    job = make_job(State.RUNNING)
    greedy = client_with_role("viewer")
    waiting(f"/{job.id}", until="terminal", client=greedy)
    query = {"wait": LONG, "until": "terminal"}
    refused = greedy.get(f"/api/v1/jobs/{job.id}", params=query)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_open")
    assert int(refused.headers["Retry-After"]) > 0
    assert greedy.get(f"/api/v1/jobs/{job.id}").status_code == 200


@every_row("path", ["one", "list"])
def test_a_client_that_leaves_ends_its_request(api, make_job, wait_until, path):
    job = make_job(State.RUNNING)
    streams = api.app.state.services.streams
    url = f"{api.url}/api/v1/jobs" + (f"/{job.id}" if path == "one" else f"?id={job.id}")
    url = f"{url}{'&' if '?' in url else '?'}wait={LONG}&until=terminal"
    client = httpx.Client(headers={"Authorization": f"Bearer {api.token}"}, timeout=0.3)
    with pytest.raises(httpx.ReadTimeout):
        client.get(url)
    client.close()
    wait_until(lambda: streams.waiting.count == 0)
    assert len(api.app.state.services.job_watcher._requests) == 0


def test_a_server_that_stops_answers_at_once(api, make_job, waiting, etag_of):
    job = make_job(State.RUNNING)
    for_end = waiting(f"/{job.id}", until="terminal")
    for_change = waiting(f"/{job.id}", etag=etag_of(f"/{job.id}"))
    loop = api.app.state.services.job_watcher._task.get_loop()
    loop.call_soon_threadsafe(api.app.state.services.streams.shutting_down.set)
    assert (for_end().status_code, for_change().status_code) == (200, 304)


def test_a_revoked_token_learns_nothing_more(api, make_job, waiting, client_with_role):
    job = make_job(State.RUNNING)
    client = client_with_role("viewer")
    response = waiting(f"/{job.id}", until="terminal", client=client)
    token_id = client.get("/api/v1/session").json()["token_id"]
    assert api.client.delete(f"/api/v1/tokens/{token_id}").status_code in (200, 204)
    end(api, job)
    assert response().status_code == 401


def test_a_job_that_is_deleted_meanwhile_is_not_found(api, make_job, waiting, etag_of):
    job = make_job(State.SUCCEEDED)
    response = waiting(f"/{job.id}", etag=etag_of(f"/{job.id}"))
    with api.database.write() as session:
        assert jobs.delete_job(session, job.id)
    assert response().status_code == 404


def test_a_job_that_is_deleted_ends_the_wait_for_the_others(api, make_job, waiting):
    running, ended = make_job(State.RUNNING), make_job(State.SUCCEEDED)
    response = waiting("", id=f"{running.id},{ended.id}", until="terminal")
    with api.database.write() as session:
        assert jobs.delete_job(session, ended.id)
    assert [job["id"] for job in response().json()["items"]] == [running.id]


def test_a_job_that_is_deleted_before_the_request_is_held_ends_it(api, make_job, monkeypatch):
    running, ended = make_job(State.RUNNING), make_job(State.SUCCEEDED)
    streams = api.app.state.services.streams
    count_waiting = streams.waiting.one

    def delete_meanwhile(owner):
        with api.database.write() as session:
            assert jobs.delete_job(session, ended.id)
        return count_waiting(owner)

    monkeypatch.setattr(streams.waiting, "one", delete_meanwhile)
    query = {"id": f"{running.id},{ended.id}", "wait": LONG, "until": "terminal"}
    response = api.client.get("/api/v1/jobs", params=query)
    assert [job["id"] for job in response.json()["items"]] == [running.id]


@every_row(
    "query",
    [
        {"wait": 61},
        {"wait": -1},
        {"wait": "nan"},
        {"wait": "inf"},
        {"until": "never"},
        {"until": "terminal", "waits": 3},
    ],
)
def test_wrong_parameters_are_refused(api, make_job, query):
    response = api.client.get(f"/api/v1/jobs/{make_job().id}", params=query)
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")


@every_row("ids", ["", "a", "000000000000,", ",".join(["00000000000a"] * 99 + ["0" * 13])])
def test_wrong_ids_are_refused(api, ids):
    response = api.client.get("/api/v1/jobs", params={"id": ids})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    assert response.json()["errors"][0]["pointer"] == "/query/id"


def test_a_list_without_ids_cannot_wait(api):
    response = api.client.get("/api/v1/jobs", params={"wait": 5})
    assert response.status_code == 422
    assert "the jobs to wait for" in response.text


def test_at_most_a_hundred_ids(api):
    ids = [f"{number:012x}" for number in range(101)]
    assert api.client.get("/api/v1/jobs", params={"id": ",".join(ids[:100])}).status_code == 200
    assert api.client.get("/api/v1/jobs", params={"id": ",".join(ids)}).status_code == 422


def test_the_watcher_ends_when_no_request_waits(api, make_job, wait_until):
    job = make_job(State.RUNNING)
    query = {"wait": 0.2, "until": "terminal"}
    api.client.get(f"/api/v1/jobs/{job.id}", params=query)
    watcher = api.app.state.services.job_watcher
    wait_until(watcher._task.done)
    assert not watcher._versions

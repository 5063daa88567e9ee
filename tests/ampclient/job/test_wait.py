import httpx
import pytest

from ampclient import ConnectionFailed, JobFailed, NotFound, State, WaitTimeout
from tests.ampclient.conftest import problem
from tests.tables import every_row


@pytest.fixture
def job(client, server):
    server.add_job("a")
    return client.jobs.get("a")


def test_wait_returns_the_ended_job(job, server, clock):
    server.change("a", state="starting")
    server.change("a", state="running")
    server.change("a", state="succeeded")
    assert job.wait(poll_s=0.25).state is State.SUCCEEDED
    assert clock.slept == [0.25, 0.25]


def test_wait_sends_no_request_for_an_ended_job(client, server):
    server.add_job("z", state="cancelled")
    job = client.jobs.get("z")
    requests = len(server.requests)
    assert job.wait() == job
    assert len(server.requests) == requests


def test_wait_calls_the_progress_function_with_each_view(job, server):
    server.change("a", state="running", step=3)
    server.change("a", state="succeeded", step=9)
    seen = []
    job.wait(on_progress=lambda view: seen.append((view.state, view.step)))
    assert seen == [("running", 3), ("succeeded", 9)]


def test_wait_raises_after_its_timeout_and_names_the_unfinished_jobs(job, clock):
    with pytest.raises(WaitTimeout, match="a is queued") as caught:
        job.wait(timeout_s=1.2, poll_s=0.5)
    assert sum(clock.slept) == pytest.approx(1.2)
    assert isinstance(caught.value, TimeoutError)
    assert [job.id for job in caught.value.jobs] == ["a"]


@every_row("state", ["failed", "cancelled"])
def test_wait_returns_a_failed_job_unless_raise_on_failure_is_set(job, server, state):
    server.change("a", state=state, reason="out_of_memory", message="Use a smaller batch.")
    assert job.wait().state == state
    with pytest.raises(JobFailed, match=f"{state}: Use a smaller batch") as caught:
        job.wait(raise_on_failure=True)
    assert caught.value.code == "out_of_memory"
    assert caught.value.job.message == "Use a smaller batch."


def test_several_jobs_are_waited_for_together(client, server):
    for name in ("a", "b"):
        server.add_job(name)
    jobs = [client.jobs.get(name) for name in ("a", "b")]
    server.change("a", state="succeeded")
    server.change("b", state="running")
    server.change("b", state="failed")
    states = [job.state for job in client.jobs.wait(jobs)]
    assert states == ["succeeded", "failed"]


def test_several_jobs_may_be_given_by_their_ids(client, server):
    server.add_job("a", state="succeeded")
    server.add_job("b", state="cancelled")
    ended = client.jobs.wait(["a", client.jobs.get("b")])
    assert [(job.id, job.state) for job in ended] == [("a", "succeeded"), ("b", "cancelled")]


def test_waiting_for_a_single_id_says_which_call_does_that(client):
    with pytest.raises(TypeError, match=r"client\.jobs\.get\(id\)\.wait\(\).* Received: 'abc'"):
        client.jobs.wait("abc")


def test_wait_continues_after_a_server_restart(job, server, respond):
    server.change("a", state="succeeded")
    server.next_responses = [respond(httpx.ConnectError("refused"))] * 12
    assert job.wait().state is State.SUCCEEDED


def test_wait_raises_if_the_server_stays_unreachable(job, server, respond):
    server.next_responses = [respond(httpx.ConnectError("refused"))] * 1000
    with pytest.raises(ConnectionFailed):
        job.wait()


def test_wait_continues_while_a_job_is_paused(job, server):
    server.change("a", state="paused")
    server.change("a", state="paused")
    server.change("a", state="queued")
    server.change("a", state="succeeded")
    seen = []
    ended = job.wait(on_progress=lambda view: seen.append(str(view.state)))
    assert seen == ["paused", "paused", "queued", "succeeded"]
    assert ended.state is State.SUCCEEDED


def test_progress_shows_where_a_new_attempt_resumes(job, server, capsys):
    server.add_attempt("a")
    server.add_attempt("a", first_step=1200)
    server.change("a", state="running", attempt=2, step=1210)
    server.change("a", state="running", attempt=2, step=1220)
    server.change("a", state="succeeded", attempt=2)
    job.wait(progress=True)
    assert "running  attempt 2, resumed at step 1200" in capsys.readouterr().err
    requests = [request for request in server.requests if request.url.path.endswith("/attempts")]
    assert len(requests) == 1


def test_progress_continues_if_attempts_cannot_be_read(job, server, respond, capsys):
    running = {"state": "running", "attempt": 2}
    server.change("a", **running)
    server.change("a", state="succeeded")
    server.next_responses = [server.handle, respond(500)]
    assert job.wait(progress=True).state is State.SUCCEEDED
    assert "running  attempt 2" in capsys.readouterr().err


def queries(server, path="/api/v1/jobs"):
    """The query parameters of the requests for a path."""
    return [dict(one.url.params) for one in server.requests if one.url.path == path]


def test_several_jobs_are_fetched_with_one_request(client, server):
    for name in ("a", "b", "c"):
        server.add_job(name, spec={"name": name})
    jobs = [client.jobs.get(name) for name in ("a", "b", "c")]
    del server.requests[:]
    server.change("b", state="succeeded")
    server.change("a")
    server.change("a", state="succeeded")
    server.change("c")
    server.change("c", state="failed")
    ended = client.jobs.wait(jobs)
    assert [job.id for job in ended] == ["a", "b", "c"]
    # Only those that have not ended are fetched again.
    assert [query["id"] for query in queries(server)] == ["a,b,c", "a,c"]
    assert len(server.requests) == 2
    assert [job.spec for job in ended] == [{"name": name} for name in "abc"]


def test_the_server_is_asked_to_wait_for_the_end(client, server, job):
    server.change("a", state="succeeded")
    job.wait()
    assert queries(server, "/api/v1/jobs/a")[1:] == [{"wait": "20", "until": "terminal"}]


def test_the_server_is_asked_to_wait_for_a_change_if_progress_is_shown(client, server, job):
    server.change("a", state="running")
    server.change("a", state="succeeded")
    job.wait(on_progress=lambda view: None)
    assert queries(server, "/api/v1/jobs/a")[1:] == [{}, {"wait": "20", "until": "change"}]


def test_the_server_waits_no_longer_than_the_client(client, server, job):
    for _ in range(5):
        server.change("a")
    with pytest.raises(WaitTimeout):
        job.wait(timeout_s=1.2, poll_s=1)
    waits = [float(query.get("wait", 0)) for query in queries(server, "/api/v1/jobs/a")[1:]]
    assert waits == pytest.approx([1.2, 0.2, 0], abs=0.01)


def test_a_held_request_may_take_longer_than_others(client, server, job):
    server.change("a", state="succeeded")
    job.wait()
    first, held = (request.extensions["timeout"]["read"] for request in server.requests)
    assert held == first + 20


def test_more_jobs_than_one_request_may_name(client, server):
    names = [f"{number:012x}" for number in range(101)]
    for name in names:
        server.add_job(name)
    jobs = [client.jobs.get(name) for name in names]
    for name in names:
        server.change(name, state="succeeded")
    ended = client.jobs.wait(jobs)
    assert [job.id for job in ended] == names
    assert [len(query["id"].split(",")) for query in queries(server)] == [100, 1]
    assert ["wait" in query for query in queries(server)] == [True, False]


def test_a_server_that_cannot_wait_is_polled(client, server, monkeypatch):
    """As one of version 0.5 is."""
    handle = server.handle

    def refuse(request):
        if "wait" in request.url.params or "id" in request.url.params:
            return problem(422, "invalid_request", "unknown parameter")
        return handle(request)

    monkeypatch.setattr(server, "handle", refuse)
    for name in ("a", "b"):
        server.add_job(name)
    jobs = [client.jobs.get(name) for name in ("a", "b")]
    for name in ("a", "b"):
        server.change(name, state="running")
        server.change(name, state="succeeded")
    assert [job.state for job in client.jobs.wait(jobs)] == ["succeeded", "succeeded"]
    assert len(queries(server)) == 1


def test_a_job_that_is_deleted_meanwhile_is_not_found(client, server):
    for name in ("a", "b"):
        server.add_job(name)
    jobs = [client.jobs.get(name) for name in ("a", "b")]
    del server.jobs["b"]
    with pytest.raises(NotFound):
        client.jobs.wait(jobs)


def test_another_read_of_the_job_does_not_delay_a_waiting_request(sync_client, server):
    """The server holds a request that has the ETag of the present state."""
    server.add_job("a", state="running")
    job = sync_client.jobs.get("a")
    etag_of_first_view = []

    def read_elsewhere(view):
        if view.step == 0:
            etag_of_first_view.append(server.handle(server.requests[-1]).headers["etag"])
            server.jobs["a"]["step"] = 7
            assert sync_client.jobs.get("a").step == 7
        else:
            server.jobs["a"]["state"] = "succeeded"

    job.wait(on_progress=read_elsewhere)
    held = [request for request in server.requests if "wait" in request.url.params]
    assert [held[0].headers["if-none-match"]] == etag_of_first_view


def refuse_held_requests(server, refuse):
    """Answer each request that the server may hold with `refuse(seconds)`, unless that is None."""
    handle = server.handle

    def handle_unless_refused(request):
        refused = refuse(float(request.url.params.get("wait", 0)))
        return handle(request) if refused is None else refused

    server.handle = handle_unless_refused


def holds(server):
    """How long each request for jobs might be held, in seconds."""
    return [
        float(query.get("wait", 0))
        for path in ("/api/v1/jobs", "/api/v1/jobs/a")
        for query in queries(server, path)
    ]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("headers", [{}, {"retry-after": "7"}])
def test_jobs_are_polled_for_a_while_if_the_server_refuses_to_hold_a_request(
    client, server, clock, status, headers
):
    def refuse(seconds):
        if seconds:
            refused_at_s.append(clock.now_s)
            return httpx.Response(status, json={"code": "too_many_open"}, headers=headers)
        return None

    server.add_job("a", state="running")
    job = client.jobs.get("a")
    for _ in range(200):
        server.change("a")
    server.change("a", state="succeeded")
    refused_at_s = []
    start_s = clock.now_s
    refuse_held_requests(server, refuse)
    assert job.wait(poll_s=0.5).state is State.SUCCEEDED
    assert [moment_s - start_s for moment_s in refused_at_s] == [0, 60]
    assert set(clock.slept) == {0.5}


@pytest.mark.parametrize("cut", [504, 502, httpx.ReadError("cut")])
def test_requests_are_held_for_less_behind_a_proxy_that_cuts_them(client, server, respond, cut):
    def refuse(seconds):
        return respond(cut)(None) if seconds > 6 else None

    server.add_job("a", state="running")
    job = client.jobs.get("a")
    for _ in range(3):
        server.change("a")
    server.change("a", state="succeeded")
    refuse_held_requests(server, refuse)
    assert job.wait().state is State.SUCCEEDED
    # Each failed one is sent again at once without being held.
    assert holds(server)[1:] == [20, 0, 10, 0, 5, 5]


def test_nothing_is_held_behind_a_proxy_that_cuts_every_held_request(client, server, respond):
    server.add_job("a", state="running")
    job = client.jobs.get("a")
    for _ in range(9):
        server.change("a")
    server.change("a", state="succeeded")
    refuse_held_requests(server, lambda seconds: respond(504)(None) if seconds else None)
    assert job.wait().state is State.SUCCEEDED
    assert holds(server)[1:] == [20, 0, 10, 0, 5, 0, 2.5, 0, 1.25, *[0] * 6]


def test_several_jobs_are_polled_too(client, server, respond):
    for name in ("a", "b"):
        server.add_job(name)
    jobs = [client.jobs.get(name) for name in ("a", "b")]
    del server.requests[:]
    for name in ("a", "b"):
        server.change(name)
        server.change(name, state="succeeded")
    refuse_held_requests(server, lambda seconds: respond(503)(None) if seconds else None)
    assert [job.state for job in client.jobs.wait(jobs)] == ["succeeded", "succeeded"]
    assert holds(server) == [20, 0, 0]


def test_a_server_that_cannot_be_reached_is_no_reason_to_hold_for_less(client, server, respond):
    server.add_job("a", state="running")
    job = client.jobs.get("a")
    server.change("a")
    server.change("a", state="succeeded")
    server.next_responses = [respond(httpx.ConnectError("refused"))] * 3
    assert job.wait().state is State.SUCCEEDED
    assert holds(server)[1:] == [20, 0, 0, 0, 20]

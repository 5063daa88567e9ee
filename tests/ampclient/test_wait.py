import httpx
import pytest

from ampclient import ConnectionFailed, JobFailed, State, WaitTimeout


@pytest.fixture
def job(client, server):
    server.add_job("a")
    return client.jobs.get("a")


def test_wait_answers_with_the_ended_job(job, server, clock):
    server.change("a", state="starting")
    server.change("a", state="running")
    server.change("a", state="succeeded")
    assert job.wait(poll_s=0.25).state is State.SUCCEEDED
    assert clock.slept == [0.25, 0.25]


def test_wait_does_not_ask_about_a_job_that_has_ended(client, server):
    server.add_job("z", state="cancelled")
    job = client.jobs.get("z")
    asked = len(server.requests)
    assert job.wait() == job
    assert len(server.requests) == asked


def test_wait_shows_each_view_to_a_function(job, server):
    server.change("a", state="running", step=3)
    server.change("a", state="succeeded", step=9)
    seen = []
    job.wait(progress=lambda view: seen.append((view.state, view.step)))
    assert seen == [("running", 3), ("succeeded", 9)]


def test_wait_gives_up_in_time_and_the_job_goes_on(job, clock):
    with pytest.raises(WaitTimeout, match="a is queued") as caught:
        job.wait(timeout=1.2, poll_s=0.5)
    assert sum(clock.slept) == pytest.approx(1.2)
    assert isinstance(caught.value, TimeoutError)
    assert [job.id for job in caught.value.jobs] == ["a"]


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_failure_is_an_answer_unless_it_is_asked_to_be_an_error(job, server, state):
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


def test_wait_bears_with_a_server_that_restarts(job, server, answer):
    server.change("a", state="succeeded")
    server.next_answers = [answer(httpx.ConnectError("refused"))] * 12
    assert job.wait().state is State.SUCCEEDED


def test_wait_does_not_bear_with_it_for_ever(job, server, answer):
    server.next_answers = [answer(httpx.ConnectError("refused"))] * 1000
    with pytest.raises(ConnectionFailed):
        job.wait()


def test_a_paused_job_is_waited_for_until_it_is_resumed(job, server):
    server.change("a", state="paused")
    server.change("a", state="paused")
    server.change("a", state="queued")
    server.change("a", state="succeeded")
    seen = []
    ended = job.wait(progress=lambda view: seen.append(str(view.state)))
    assert seen == ["paused", "paused", "queued", "succeeded"]
    assert ended.state is State.SUCCEEDED


def test_progress_tells_where_a_new_attempt_goes_on(job, server, capsys):
    server.add_attempt("a")
    server.add_attempt("a", first_step=1200)
    server.change("a", state="running", attempt=2, step=1210)
    server.change("a", state="running", attempt=2, step=1220)
    server.change("a", state="succeeded", attempt=2)
    job.wait(progress=True)
    assert "running  attempt 2, resumed at step 1200" in capsys.readouterr().err
    asked = [request for request in server.requests if request.url.path.endswith("/attempts")]
    assert len(asked) == 1


def test_progress_goes_on_where_attempts_cannot_be_read(job, server, answer, capsys):
    running = {"state": "running", "attempt": 2}
    server.change("a", **running)
    server.change("a", state="succeeded")
    server.next_answers = [server.answer, answer(500)]
    assert job.wait(progress=True).state is State.SUCCEEDED
    assert "running  attempt 2" in capsys.readouterr().err

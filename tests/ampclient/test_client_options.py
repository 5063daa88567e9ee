"""Options of a client, for all of its calls, and old names of arguments."""

import asyncio
from inspect import isfunction, signature

import httpx
import pytest

from ampclient import AsyncClient, Client, Conflict, ConnectionFailed, Job, StudyFailed, WaitTimeout
from ampclient._job.wait import J
from tests.tables import every_row
from tests.waiting import DEADLINE_S

REFUSED = httpx.ConnectError("refused")


@pytest.fixture
def connect(server, clock):
    def connect(**options):
        http_client = httpx.Client(transport=httpx.MockTransport(server))
        return Client("http://h", "a-secret-token", http_client=http_client, **options)

    return connect


@every_row("max_retries", [0, 1, 3])
def test_max_retries_limits_the_requests_of_a_call(connect, server, respond, max_retries):
    del server.requests[:]
    server.next_responses = [respond(REFUSED)] * 10
    with pytest.raises(ConnectionFailed):
        connect(max_retries=max_retries).version()
    assert len(server.requests) == 1 + max_retries
    del server.requests[:]
    with pytest.raises(ConnectionFailed):
        connect().version(max_retries=max_retries)
    assert len(server.requests) == 1 + max_retries


def test_without_max_retries_the_time_limits_them(connect, server, respond):
    server.next_responses = [respond(REFUSED)] * 4
    assert connect().version().version == "9.8.7"


def test_max_retries_holds_for_transfers_too(connect, server, respond, tmp_path):
    server.add_job("a", state="succeeded")
    server.files["a"] = {"model.keras": b"1" * 100}
    job = connect(max_retries=1).jobs.get("a")
    del server.requests[:]
    server.next_responses = [server.handle, *[respond(REFUSED)] * 10]
    with pytest.raises(ConnectionFailed):
        job.download(to=tmp_path)
    assert len(server.requests) == 3


def test_default_headers_are_sent_and_cannot_replace_the_token(connect, server):
    client = connect(default_headers={"X-Team": "vision", "Authorization": "other"})
    client.version(headers={"X-Trace": "7", "x-team": "audio"})
    client.version()
    traced, plain = server.requests
    assert (traced.headers["x-team"], traced.headers["x-trace"]) == ("audio", "7")
    assert plain.headers["x-team"] == "vision"
    assert plain.headers["authorization"] == "Bearer a-secret-token"


def test_with_options_shares_the_connections_and_changes_nothing_else(connect, server):
    client = connect(default_headers={"X-Team": "vision"})
    patient = client.with_options(timeout_s=DEADLINE_S, default_headers={"X-Trace": "7"})
    assert type(patient) is Client
    server.add_job("a")
    patient.jobs.get("a").refresh()
    client.jobs.get("a")
    *changed, plain = server.requests
    for request in changed:
        assert request.extensions["timeout"]["read"] == DEADLINE_S
        assert (request.headers["x-team"], request.headers["x-trace"]) == ("vision", "7")
    assert plain.extensions["timeout"]["read"] != DEADLINE_S
    assert "x-trace" not in plain.headers
    assert patient._transport._backend is client._transport._backend


def test_an_option_that_does_not_exist_is_an_error(connect, server):
    client = connect()
    with pytest.raises(TypeError, match="unexpected keyword argument 'modle'"):
        client.jobs.submit(data={"kind": "digits"}, modle={"kind": "mlp"})
    with pytest.raises(TypeError, match="'timeot'"):
        client.version(timeot=3)
    assert server.requests == []


BY_ID = {
    "cancel": ("running", {}),
    "pause": ("running", {}),
    "resume": ("paused", {}),
    "retry": ("failed", {}),
    "profile": ("running", {"steps": 3}),
    "clone": ("running", {"set": {"precision.policy": "float32"}}),
    "extend": ("succeeded", {"epochs": 2}),
    "explain": ("succeeded", {"step": 1}),
    "edit": ("running", {"name": "new"}),
    "delete": ("succeeded", {}),
}


@every_row("action", list(BY_ID))
def test_an_action_by_id_is_one_request_and_that_of_the_job(connect, server, action):
    state, arguments = BY_ID[action]
    client = connect()

    def act(call):
        del server.requests[:]
        try:
            job = call(**arguments)
            assert job is None if action == "delete" else type(job) is Job
        except Conflict:
            pass
        [request] = server.requests
        return request.method, request.url.path, request.content

    server.add_job("a", state=state, step=5)
    job = client.jobs.get("a")
    by_id = act(lambda **more: getattr(client.jobs, action)("a", **more))
    server.add_job("a", state=state, step=5)
    by_job = act(lambda **more: getattr(client.jobs, action)(job, **more))
    server.add_job("a", state=state, step=5)
    assert by_id == by_job == act(getattr(job, action))


def test_every_action_of_a_job_has_one_by_id():
    methods = {name: getattr(Job, name) for name in dir(Job) if not name.startswith("_")}
    changing = {
        name
        for name, method in methods.items()
        if isfunction(method) and signature(method).return_annotation is J
    }
    assert changing - {"refresh", "wait"} | {"delete"} == set(BY_ID)


def test_old_names_of_time_limits_work_and_warn(connect, server, clock):
    server.add_job("a", state="running")
    client = connect()
    with pytest.warns(DeprecationWarning, match="timeout= is now timeout_s=") as warned:
        job = client.jobs.get("a", timeout=DEADLINE_S)
    assert warned[0].filename == __file__
    assert server.requests[-1].extensions["timeout"]["read"] == DEADLINE_S
    for wait in (job.wait, lambda **kwargs: client.jobs.wait([job], **kwargs)):
        with (
            pytest.warns(DeprecationWarning, match=r"wait\(timeout=\) is now timeout_s=") as warned,
            pytest.raises(WaitTimeout),
        ):
            wait(timeout=1.0)
        assert warned[0].filename == __file__


def test_a_function_as_progress_works_and_warns(connect, server):
    server.add_job("a", state="succeeded")
    seen = []
    with pytest.warns(DeprecationWarning, match="is now on_progress="):
        connect().jobs.get("a").wait(progress=seen.append)
    assert [job.id for job in seen] == ["a"]


def test_async_code_is_warned_at_its_own_line(server):
    server.add_job("a", state="succeeded")

    async def read():
        http_client = httpx.AsyncClient(transport=httpx.MockTransport(server))
        async with (
            http_client,
            AsyncClient("http://h", "a-secret-token", http_client=http_client) as client,
        ):
            await client.jobs.get("a", timeout=DEADLINE_S)

    with pytest.warns(DeprecationWarning, match="timeout_s") as warned:
        asyncio.run(read())
    assert warned[0].filename == __file__


def test_client_lab_is_the_old_name_of_studies(connect):
    client = connect()
    with pytest.warns(DeprecationWarning, match=r"client\.studies"):
        assert client.lab is client.studies


def test_waiting_for_a_study_can_raise(connect, server):
    study = {
        "id": "s", "project": "p", "kind": "precision", "name": "n", "state": "failed",
        "message": "no worker", "jobs_planned": 0, "jobs_ended": 0, "created_by": None,
        "created_at": "2030-01-02T03:04:05Z", "updated_at": "2030-01-02T03:04:05Z",
        "finished_at": None, "spec": {}, "options": {}, "policies": [], "progress": None,
        "jobs": [], "answer": None,
    }  # fmt: skip
    server.next_responses = [lambda request: httpx.Response(200, json=study)] * 2
    client = connect()
    assert client.studies.wait("s").state == "failed"
    with pytest.raises(StudyFailed, match="s is failed: no worker") as failed:
        client.studies.wait("s", raise_on_failure=True)
    assert failed.value.study.id == "s"

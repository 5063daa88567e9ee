"""Per-call `timeout_s=` and `headers=`, and the HTTP response behind a result."""

import asyncio
import inspect

import httpx
import pytest

from ampclient import AsyncClient, Client, Job, NotFound, RawResponse
from ampclient._http.operations import operation, paginated
from ampclient._job.job import BaseJob
from ampclient.access import Projects, Tokens
from ampclient.client import BaseClient
from ampclient.datasets import Datasets
from ampclient.files import Files
from ampclient.jobs import Jobs
from ampclient.runs import Runs
from ampclient.studies import Studies
from ampclient.workers import Workers
from tests.tables import every_row
from tests.waiting import DEADLINE_S

SEVERAL_REQUESTS = {
    "wait",
    "steps",
    "download",
    "export",
    "image_content",
    "upload",
    "upload_bundle",
    "upload_weights",
}
"""Operations that send several requests, and have parameters of their own for that."""


def operations():
    for owner in (
        BaseClient,
        Jobs,
        Studies,
        Runs,
        Datasets,
        Files,
        Workers,
        Tokens,
        Projects,
        BaseJob,
    ):
        for name in dir(owner):
            if isinstance(inspect.getattr_static(owner, name), operation | paginated):
                yield owner, name


def test_a_timeout_and_headers_are_those_of_one_request(client, server):
    server.add_job("a")
    client.jobs.get("a", timeout_s=DEADLINE_S, headers={"X-Trace": "7", "authorization": "other"})
    client.jobs.get("a")
    with_options, plain = server.requests
    assert with_options.extensions["timeout"]["read"] == DEADLINE_S
    assert with_options.headers["x-trace"] == "7"
    assert with_options.headers["authorization"] == plain.headers["authorization"]
    assert plain.extensions["timeout"]["read"] != DEADLINE_S
    assert "x-trace" not in plain.headers


def test_actions_of_a_job_and_pages_of_a_list_take_the_options(client, server):
    server.add_job("a")
    job = client.jobs.get("a")
    calls = (job.refresh, job.attempts, job.allocations, job.artifacts, job.events)
    for call in (*calls, client.workers.list):
        call(headers={"X-Trace": "7"})
    list(client.jobs.list(headers={"X-Trace": "7"}))
    assert all(request.headers.get("x-trace") == "7" for request in server.requests[1:])


@every_row(("owner", "name"), list(operations()))
def test_every_operation_shows_the_options_in_its_signature(owner, name):
    if name in SEVERAL_REQUESTS:
        return
    shown = inspect.signature(getattr(owner, name)).parameters
    assert {"timeout_s", "max_retries", "headers"} <= set(shown)
    assert "options" not in shown


def test_a_raw_response_has_the_headers_and_the_result(server):
    server.add_job("a")
    http_client = httpx.Client(transport=httpx.MockTransport(server))
    client = Client("http://h", "a-secret-token", http_client=http_client)
    client.jobs.get("a")
    raw = client.with_raw_response.jobs.get("a")
    assert isinstance(raw, RawResponse)
    assert (raw.status_code, raw.headers["content-type"]) == (200, "application/json")
    assert b'"id":"a"' in raw.content
    assert raw.request_id == raw.headers.get("x-request-id")
    job = raw.parse()
    assert type(job) is Job
    assert job.refresh() == job


def test_streamed_responses_are_raw_responses_too(sync_client, server, tmp_path):
    server.add_job("a", state="succeeded")
    server.add_steps("a", 3)
    raw_job = sync_client.jobs.get("a").with_raw_response
    steps = raw_job.steps()
    assert (steps.status_code, len(steps.parse()["step"])) == (200, 3)
    assert steps.headers["content-type"] == "application/vnd.apache.arrow.stream"
    export = raw_job.export(tmp_path)
    assert (export.status_code, export.parse()) == (200, tmp_path / "digits-a.csv")
    with pytest.raises(TypeError, match="wait has sent no request"):
        raw_job.wait()


def test_the_async_client_returns_raw_responses(server):
    async def read():
        http_client = httpx.AsyncClient(transport=httpx.MockTransport(server))
        async with (
            http_client,
            AsyncClient("http://h", "a-secret-token", http_client=http_client) as client,
        ):
            return await client.with_raw_response.version()

    assert asyncio.run(read()).parse().version == "9.8.7"


def test_raw_responses_raise_errors_and_refuse_streams(server):
    server.add_job("a")
    http_client = httpx.Client(transport=httpx.MockTransport(server))
    client = Client("http://h", "a-secret-token", http_client=http_client)
    with pytest.raises(NotFound):
        client.with_raw_response.jobs.get("none")
    job = client.jobs.get("a")
    raw = job.with_raw_response.refresh()
    assert (raw.status_code, type(raw.parse()), raw.parse()) == (200, Job, job)
    with pytest.raises(TypeError, match="logs returns items of several responses"):
        job.with_raw_response.logs  # noqa: B018 - reading it fails

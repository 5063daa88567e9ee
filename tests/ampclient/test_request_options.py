"""Per-call `timeout=` and `headers=`, and the HTTP response behind a result."""

import asyncio
import inspect

import httpx
import pytest

from ampclient import AsyncClient, Client, Job, NotFound, RawResponse
from ampclient._sync_async import operation, paginated
from ampclient.admin import BaseProjects, BaseTokens
from ampclient.client import BaseClient
from ampclient.job import BaseJob
from ampclient.jobs import BaseJobs
from ampclient.workers import BaseWorkers
from tests.tables import every_row
from tests.waiting import DEADLINE_S

SEVERAL_REQUESTS = {"wait", "steps", "download", "export"}
"""Operations that send several requests, and have parameters of their own for that."""


def operations():
    for owner in (BaseClient, BaseJobs, BaseWorkers, BaseTokens, BaseProjects, BaseJob):
        for name in dir(owner):
            if isinstance(inspect.getattr_static(owner, name), operation | paginated):
                yield owner, name


def test_a_timeout_and_headers_are_those_of_one_request(client, server):
    server.add_job("a")
    client.jobs.get("a", timeout=DEADLINE_S, headers={"X-Trace": "7", "authorization": "other"})
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
    for call in (job.refresh, job.attempts, job.artifacts, job.events, client.workers.list):
        call(headers={"X-Trace": "7"})
    list(client.jobs.list(headers={"X-Trace": "7"}))
    assert all(request.headers.get("x-trace") == "7" for request in server.requests[1:])


@every_row(("owner", "name"), list(operations()))
def test_every_operation_shows_the_options_in_its_signature(owner, name):
    if name in SEVERAL_REQUESTS:
        return
    shown = inspect.signature(getattr(owner, name)).parameters
    assert {"timeout", "headers"} <= set(shown)
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


def test_the_async_client_returns_raw_responses(server):
    async def read():
        http_client = httpx.AsyncClient(transport=httpx.MockTransport(server))
        async with (
            http_client,
            AsyncClient("http://h", "a-secret-token", http_client=http_client) as client,
        ):
            return await client.with_raw_response.version()

    assert asyncio.run(read()).parse().version == "9.8.7"


def test_raw_responses_raise_errors_and_refuse_paginated_lists(server):
    http_client = httpx.Client(transport=httpx.MockTransport(server))
    raw = Client("http://h", "a-secret-token", http_client=http_client).with_raw_response
    with pytest.raises(NotFound):
        raw.jobs.get("none")
    with pytest.raises(AttributeError, match="list returns items of several responses"):
        raw.jobs.list  # noqa: B018 - reading it fails

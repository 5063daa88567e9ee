"""The single requests about tracked runs, sync and async, against the real API."""

import asyncio

import pytest

from ampclient import AsyncClient, AsyncJob, Conflict, InvalidRequest, Job, State

STEPS = {"type": "steps", "first_step": 0, "columns": {"loss": [0.5, "NaN"]}}


def test_a_run_is_created_uploaded_and_finished(client):
    job = client.runs.create({"name": "by hand", "precision": {"policy": "fp16"}})
    assert isinstance(job, Job)
    assert (job.state, job.source, job.policy) == (State.RUNNING, "tracked", "fp16")
    for _ in range(2):  # a repeat changes nothing
        status = client.runs.upload(job.id, 0, [STEPS], total_steps=4)
        assert (status.entries, status.step, status.requested) == (1, 2, None)
    ended = client.runs.finish(job.id, "succeeded", entries=1, summary={"val_loss": 0.25})
    assert (ended.state, ended.summary.val_loss) == (State.SUCCEEDED, 0.25)
    assert ended.steps()["loss"][0] == 0.5
    with pytest.raises(Conflict):
        client.runs.upload(job.id, 1, [STEPS])


def test_the_same_requests_are_awaited(api):
    async def use() -> None:
        async with AsyncClient(api.url, api.token) as client:
            job = await client.runs.create({})
            assert isinstance(job, AsyncJob)
            status = await client.runs.upload(job.id, 0, [STEPS])
            assert status.state is State.RUNNING
            ended = await client.runs.finish(job.id, "failed", entries=1, message="no")
            assert (ended.reason, ended.message) == ("run_failed", "no")
            with pytest.raises(TypeError, match="needs the synchronous Client"):
                client.runs.track()

    asyncio.run(use())


def test_one_key_creates_one_run(client):
    first, again = (client.runs.create({}, idempotency_key="k") for _ in range(2))
    assert first.id == again.id


def test_invalid_requests_name_the_field(client):
    with pytest.raises(InvalidRequest, match="/body/name"):
        client.runs.create({"name": ""})
    job = client.runs.create({})
    with pytest.raises(InvalidRequest, match="/body/entries/0"):
        client.runs.upload(job.id, 0, [{"type": "steps", "first_step": 0}])


def test_the_response_of_a_request_is_available(client):
    raw = client.with_raw_response.runs.create({})
    assert raw.status_code == 201
    assert raw.headers["location"] == f"/api/v1/jobs/{raw.parse().id}"

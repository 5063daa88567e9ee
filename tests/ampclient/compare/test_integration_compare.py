"""A comparison from a real server."""

import asyncio

import numpy as np
import pytest

from ampclient import AsyncClient, Client, InvalidRequest, NotFound
from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from store.jobs import attempts
from store.telemetry import ingest


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


@pytest.fixture
def pair(api, make_job, make_block):
    """Two jobs of a thousand steps, the second twice as fast, and with a higher loss."""

    def make(policy, loss, step_time_s):
        job = make_job(State.RUNNING, precision={"policy": policy})
        block = make_block(0, 1000, loss=loss, step_time_s=step_time_s)
        evaluation = Event(EventType.EVALUATION, 499, {"val_loss": loss})
        with api.database.write() as session:
            entries = [block, evaluation]
            assert ingest.append(session, job.id, 1, entries, entries_written=0)
            assert attempts.mark_succeeded(session, job.id, 1, {"final_loss": loss})
        return job.id

    return [make("float32", 2.0, 0.5), make("mixed_bfloat16", 2.5, 0.25)]


def assert_comparison(comparison, pair):
    assert [compared.job.id for compared in comparison.jobs] == pair
    assert [compared.loss_drift for compared in comparison.jobs] == [0.0, 0.25]
    first, second = (compared.data for compared in comparison.jobs)
    assert first["step"].tolist() == second["step"].tolist()
    assert first["count"].sum() == 1000
    np.testing.assert_allclose(first["elapsed_s"], 2 * second["elapsed_s"])
    assert "loss.mean" in first
    assert "grad_norm.mean" not in first
    differs = {difference.pointer: difference.values for difference in comparison.spec}
    assert differs["/precision/policy"] == ["float32", "mixed_bfloat16"]
    results = {result.name: result.values for result in comparison.results}
    assert results["final_loss"] == results["val_loss"] == [2.0, 2.5]
    first, second = (compared.evaluations for compared in comparison.jobs)
    assert (first["step"].tolist(), first["epoch"].tolist()) == ([499], [-1])
    assert (first["val_loss"].tolist(), second["val_loss"].tolist()) == ([2.0], [2.5])
    np.testing.assert_allclose(first["elapsed_s"], [250.0])


def test_the_client_reads_a_comparison(api, pair):
    with Client(api.url, api.token) as client:
        jobs = [client.jobs.get(job_id) for job_id in pair]
        assert_comparison(client.compare(jobs, columns=["loss"], max_points=50), pair)
        reverse = client.compare(pair, baseline=jobs[1])
        assert reverse.baseline == pair[1]
        assert reverse.jobs[0].loss_drift == pytest.approx(-0.2)
        with pytest.raises(NotFound):
            client.compare([*pair, "0" * 12])
        with pytest.raises(InvalidRequest):
            client.compare(pair[:1])


def test_the_async_client_reads_a_comparison(api, pair):
    async def compare():
        async with AsyncClient(api.url, api.token) as client:
            return await client.compare(pair, columns=["loss"], max_points=50)

    assert_comparison(asyncio.run(compare()), pair)

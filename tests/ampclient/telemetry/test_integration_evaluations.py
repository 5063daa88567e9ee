"""Evaluations from a real server, for the sync and the async client."""

import asyncio
import math

import pytest

from ampclient import AsyncClient, Client, Evaluations, NotFound
from ampclient import _endpoints as client_requests
from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from store.telemetry import ingest


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


@pytest.fixture
def job_id(api, make_job):
    """A running job with three evaluations."""
    job = make_job(State.RUNNING)
    metrics = [{"val_loss": 0.5}, {"val_loss": math.nan, "val_auc": 0.75}, {"val_loss": 0.25}]
    entries = [Event(EventType.STARTED, None, {"steps_per_epoch": 10})]
    entries += [Event(EventType.EVALUATION, 10 * n + 9, values) for n, values in enumerate(metrics)]
    with api.database.write() as session:
        ingest.append(session, job.id, 1, entries, entries_written=0)
    return job.id


@pytest.fixture
def evaluations(api, job_id):
    with Client(api.url, api.token) as client:
        return client.jobs.get(job_id).evaluations()


def test_evaluations_are_mappings_in_order(evaluations):
    assert len(evaluations) == 3
    assert evaluations[0] == {"epoch": 0, "step": 9, "val_loss": 0.5}
    assert math.isnan(evaluations[1]["val_loss"])
    assert evaluations[-1] == {"epoch": 2, "step": 29, "val_loss": 0.25}
    assert [row["step"] for row in evaluations[1:]] == [19, 29]
    assert evaluations.names == ("val_loss", "val_auc")
    assert evaluations.column("val_auc") == [None, 0.75, None]


def test_evaluations_become_an_arrow_table_and_a_data_frame(evaluations):
    pandas = pytest.importorskip("pandas")
    table = evaluations.to_arrow()
    assert table.column_names == ["step", "epoch", "val_loss", "val_auc"]
    assert table["step"].to_pylist() == [9, 19, 29]
    assert table["val_auc"].to_pylist() == [None, 0.75, None]
    frame = evaluations.to_pandas()
    assert frame.index.tolist() == [9, 19, 29]
    assert frame["val_loss"].tolist()[::2] == [0.5, 0.25]
    assert pandas.isna(frame["val_auc"][9])


def test_a_notebook_shows_evaluations_as_a_table(evaluations):
    html = evaluations._repr_html_()
    assert html.count("<tr>") == 4
    assert "val_auc" in html
    assert repr(evaluations) == "<Evaluations of 3 steps: val_loss, val_auc>"


def test_long_evaluations_are_read_in_pages(api, job_id, monkeypatch):
    monkeypatch.setattr(client_requests.records, "EVALUATIONS_PER_PAGE", 2)
    with Client(api.url, api.token) as client:
        job = client.jobs.get(job_id)
        assert [row["step"] for row in job.evaluations()] == [9, 19, 29]
        assert [row["step"] for row in job.evaluations(after=9)] == [19, 29]


def test_the_async_client_reads_the_same_evaluations(api, job_id):
    async def read():
        async with AsyncClient(api.url, api.token) as client:
            job = await client.jobs.get(job_id)
            return await job.evaluations()

    evaluations = asyncio.run(read())
    assert isinstance(evaluations, Evaluations)
    assert evaluations.column("step") == [9, 19, 29]


def test_the_evaluations_of_a_deleted_job_are_not_found(api, make_job):
    job_id = make_job(State.SUCCEEDED).id
    with Client(api.url, api.token) as client:
        job = client.jobs.get(job_id)
        job.delete()
        with pytest.raises(NotFound):
            job.evaluations()


def test_a_job_has_the_metrics_of_its_last_evaluation(api, job_id):
    with Client(api.url, api.token) as client:
        assert client.jobs.get(job_id).metrics == {"val_loss": 0.25}
        assert next(iter(client.jobs.list())).metrics == {"val_loss": 0.25}

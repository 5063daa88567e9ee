"""Evaluations of a job: one row per evaluated step, from the latest attempt."""

import csv
import io
import json
import math

import pyarrow as pa
import pyarrow.parquet
import pytest

from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from store.jobs import attempts
from store.telemetry import ingest
from tests.databases import ON_SQLITE
from tests.tables import every_row


def evaluation(step, **metrics):
    return Event(EventType.EVALUATION, step, metrics)


def started(steps_per_epoch):
    return Event(EventType.STARTED, None, {"steps_per_epoch": steps_per_epoch})


def append(api, job_id, attempt, entries, written=0):
    with api.database.write() as session:
        assert ingest.append(session, job_id, attempt, entries, entries_written=written)


@pytest.fixture
def job_id(api, make_job):
    """A running job with three evaluations, one of them not finite, and one without accuracy."""
    job = make_job(State.RUNNING)
    entries = [
        started(10),
        evaluation(9, val_loss=0.5, val_accuracy=0.25),
        Event(EventType.OVERFLOW, 12, {"val_loss": 7.0}),
        evaluation(19, val_loss=math.nan, val_accuracy=0.5),
        evaluation(24, val_loss=0.125),
    ]
    append(api, job.id, 1, entries)
    return job.id


def get(api, job_id, **query):
    answer = api.client.get(f"/api/v1/jobs/{job_id}/evaluations", params=query)
    assert answer.status_code == 200, answer.text
    return answer


@ON_SQLITE
def test_a_table_has_a_bounded_number_of_metrics(api, make_job, monkeypatch):
    monkeypatch.setattr("server.telemetry.evaluation_table.MAX_COLUMNS", 2)
    job = make_job(State.RUNNING)
    append(api, job.id, 1, [evaluation(n, **{f"val_{n}": 0.5}) for n in range(9)])
    header, *rows = get(api, job.id, format="csv").text.splitlines()
    assert header == "step,epoch,val_0,val_1"
    assert len(rows) == 9


def test_each_evaluation_is_a_row_with_its_epoch_step_and_metrics(api, job_id):
    assert get(api, job_id).json() == {
        "items": [
            {"epoch": 0, "step": 9, "best": False, "val_loss": 0.5, "val_accuracy": 0.25},
            {"epoch": 1, "step": 19, "best": False, "val_loss": "NaN", "val_accuracy": 0.5},
            {"epoch": 2, "step": 24, "best": False, "val_loss": 0.125},
        ],
        "next": 24,
        "more": False,
    }


@ON_SQLITE
def test_an_evaluation_may_name_its_epoch_as_that_of_a_keras_run_does(api, make_job):
    job = make_job(State.RUNNING)
    named = (0, 7, True, -1, "3", 10**30)
    append(api, job.id, 1, [evaluation(n, val_loss=1.0, epoch=e) for n, e in enumerate(named)])
    items = get(api, job.id).json()["items"]
    assert [item["epoch"] for item in items] == [0, 7, None, None, None, None]
    assert all(set(item) == {"epoch", "step", "best", "val_loss"} for item in items)
    assert get(api, job.id, format="csv").text.splitlines()[1:3] == ["0,0,1", "1,7,1"]
    append(api, job.id, 1, [started(2)], written=len(named))
    assert [item["epoch"] for item in get(api, job.id).json()["items"]] == [0, 7, 1, 1, 2, 2]


@pytest.mark.parametrize("query", [{}, {"max_points": 10}, {"after": 9}])
def test_the_last_improvement_is_the_best_evaluation(api, make_job, query):
    job = make_job(State.RUNNING)
    entries = [
        evaluation(9, val_loss=3.0, best=True),
        evaluation(19, val_loss=1.0, best=True),
        evaluation(29, val_loss=2.0),
    ]
    append(api, job.id, 1, entries)
    items = get(api, job.id, **query).json()["items"]
    assert [item["step"] for item in items if item["best"]] == [19]


def test_an_evaluation_that_a_later_attempt_replaced_is_not_the_best(api, make_job):
    job = make_job(State.RUNNING)
    append(api, job.id, 1, [evaluation(9, val_loss=3.0, best=True), evaluation(19, best=True)])
    append(api, job.id, 1, [evaluation(19, val_loss=4.0)], written=2)
    items = get(api, job.id).json()["items"]
    assert [item["step"] for item in items if item["best"]] == [9]


def test_an_epoch_that_is_trained_again_replaces_its_row(api, job_id):
    with api.database.write() as session:
        attempts.fail(session, job_id, 1, "worker_lost", "Lost.", outcome="lost")
        attempts.claim(session, job_id, "other")
    with api.database.write() as session:
        attempts.mark_running(session, job_id, 2, total_steps=100, first_step=15)
    before = [9, 19, 24]
    assert [row["step"] for row in get(api, job_id).json()["items"]] == before
    append(api, job_id, 2, [started(10), evaluation(19, val_loss=0.375)])
    rows = get(api, job_id).json()["items"]
    assert [row["step"] for row in rows] == before
    assert rows[1] == {"epoch": 1, "step": 19, "best": False, "val_loss": 0.375}


def test_pages_have_every_row_once(api, job_id):
    seen, query, more = [], {"limit": 1}, True
    while more:
        page = get(api, job_id, **query).json()
        seen += [row["step"] for row in page["items"]]
        query, more = {"limit": 1, "after": page["next"]}, page["more"]
    assert seen == [9, 19, 24]
    assert get(api, job_id, after=24).json() == {"items": [], "next": 24, "more": False}


def test_a_range_of_steps_is_read(api, job_id):
    rows = get(api, job_id, after=9, end=24).json()["items"]
    assert [row["step"] for row in rows] == [19]


@pytest.mark.parametrize(("most", "steps"), [(10, range(10)), (4, [0, 3, 6, 9]), (3, [1, 5, 9])])
def test_a_sample_is_evenly_spaced_and_has_the_last_evaluation(api, make_job, most, steps):
    job = make_job(State.RUNNING)
    append(api, job.id, 1, [evaluation(step, val_loss=0.5) for step in range(10)])
    page = get(api, job.id, max_points=most).json()
    assert [row["step"] for row in page["items"]] == [*steps]
    assert (page["next"], page["more"]) == (9, False)


@ON_SQLITE
def test_without_a_start_event_the_epoch_is_unknown(api, make_job):
    job = make_job(State.RUNNING)
    append(api, job.id, 1, [evaluation(9, val_loss=0.5)])
    assert [row["epoch"] for row in get(api, job.id).json()["items"]] == [None]


def test_a_job_without_evaluations_has_no_rows(api, make_job):
    assert get(api, make_job().id).json() == {"items": [], "next": None, "more": False}


@ON_SQLITE
@every_row("form", ["arrow", "csv", "ndjson", "parquet"])
def test_every_format_has_the_same_rows(api, job_id, form):
    content = get(api, job_id, format=form).content
    match form:
        case "arrow":
            rows = pa.ipc.open_stream(content).read_all().to_pylist()
        case "parquet":
            rows = pa.parquet.read_table(io.BytesIO(content)).to_pylist()
        case "ndjson":
            rows = [json.loads(line) for line in content.decode().splitlines()]
        case "csv":
            rows = list(csv.DictReader(io.StringIO(content.decode())))
    found = [[repr(float(value)) for value in row.values()] for row in rows]
    assert list(rows[0]) == ["step", "epoch", "val_loss", "val_accuracy"]
    assert found == [
        ["9.0", "0.0", "0.5", "0.25"],
        ["19.0", "1.0", "nan", "0.5"],
        ["24.0", "2.0", "0.125", "nan"],
    ]


@ON_SQLITE
def test_the_accept_header_selects_the_format(api, job_id):
    url = f"/api/v1/jobs/{job_id}/evaluations"
    answer = api.client.get(url, headers={"Accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    assert "Accept" in answer.headers["vary"]


@ON_SQLITE
def test_unchanged_evaluations_are_not_sent_again(api, job_id):
    etag = get(api, job_id).headers["etag"]
    url = f"/api/v1/jobs/{job_id}/evaluations"
    assert api.client.get(url, headers={"If-None-Match": etag}).status_code == 304


@ON_SQLITE
@every_row("query", ["limit=0", "after=-2", "format=tensorboard", "epoch=1"])
def test_invalid_parameters_are_rejected(api, job_id, query):
    answer = api.client.get(f"/api/v1/jobs/{job_id}/evaluations?{query}")
    assert answer.status_code == 422


@ON_SQLITE
def test_the_evaluations_of_another_project_are_not_found(api, make_job, client_with_role):
    job = make_job(project="other")
    client = client_with_role("member", "default")
    assert client.get(f"/api/v1/jobs/{job.id}/evaluations").status_code == 404

"""Exports of steps: every format has the same values, for any number of steps."""

import csv
import io
import itertools
import json
import math
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet
import pytest
from sqlalchemy import delete

from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from server.errors import NotFound
from server.telemetry import steps_reader
from server.telemetry.steps_query import StepsQuery
from store.tables import Job
from store.telemetry import ingest
from tests.databases import ON_SQLITE
from tests.tables import every_row

LOSSES = [0.1, math.nan, math.inf, -math.inf, 1e-30, 12345678.0]
FORMS = ["arrow", "csv", "ndjson", "parquet"]


@pytest.fixture(autouse=True)
def short_pages(monkeypatch):
    monkeypatch.setattr(steps_reader, "PAGE", 7)


@pytest.fixture
def job_id(api, make_job, make_block):
    """A job of 18 steps, a gap of two, and 5 more steps with another column."""
    job = make_job(State.RUNNING, name="böse / name")
    blocks = [make_block(3 * i, 3, loss=loss) for i, loss in enumerate(LOSSES)]
    blocks.append(make_block(20, 5, loss=7.0, **{"loss/generator": 0.5}))
    with api.database.write() as session:
        ingest.append(session, job.id, 1, blocks, entries_written=0)
    return job.id


def get(api, job_id, *, accept=None, **query):
    headers = {"Accept": accept} if accept else {}
    answer = api.client.get(f"/api/v1/jobs/{job_id}/steps", params=query, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


def rows_of(form, content):
    """The rows of an exported file, as dictionaries."""
    match form:
        case "arrow":
            return pa.ipc.open_stream(content).read_all().to_pylist()
        case "parquet":
            return pa.parquet.read_table(io.BytesIO(content)).to_pylist()
        case "ndjson":
            return [json.loads(line) for line in content.decode().splitlines()]
        case "csv":
            return [
                {name: parse_cell(cell) for name, cell in row.items()}
                for row in csv.DictReader(io.StringIO(content.decode()))
            ]


def parse_cell(cell):
    return None if not cell else cell == "true" if cell in ("true", "false") else float(cell)


NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def floats(rows):
    """Numbers rounded to what a float32 holds; None stays None."""
    return [
        {
            n: v
            if v is None
            else repr(pa.scalar(float(NON_FINITE.get(v, v)), pa.float32()).as_py())
            for n, v in row.items()
        }
        for row in rows
    ]


@ON_SQLITE
@every_row("form", FORMS)
def test_every_format_has_every_step(api, job_id, form):
    content = get(api, job_id, format=form).content
    rows = floats(rows_of(form, content))
    assert [float(row["step"]) for row in rows] == [*range(18), *range(20, 25)]
    wanted = [loss for loss in LOSSES for _ in range(3)] + [7.0] * 5
    assert [row["loss"] for row in rows] == [row["x"] for row in floats({"x": w} for w in wanted)]
    empty = "nan" if form == "arrow" else None  # whose NaN has bits of its own
    assert [row["loss/generator"] for row in rows] == [empty] * 18 + ["0.5"] * 5
    assert {row["skipped"] for row in rows} == {"0.0"}


@ON_SQLITE
@every_row("form", FORMS)
def test_a_range_of_steps_and_some_columns_can_be_exported(api, job_id, form):
    content = get(api, job_id, format=form, start=2, end=24, limit=17, columns="loss").content
    rows = rows_of(form, content)
    assert [row["step"] for row in rows] == [*range(2, 18), 20]
    assert {tuple(row) for row in rows} == {("step", "loss")}


@ON_SQLITE
@every_row("form", FORMS)
def test_downsampled_points_can_be_exported(api, job_id, form):
    content = get(api, job_id, format=form, max_points=3, columns="loss").content
    rows = rows_of(form, content)
    assert sum(row["count"] for row in rows) == 23
    assert {"step", "count", "skipped", "loss.min", "loss.mean"} <= rows[0].keys()


@ON_SQLITE
@every_row(
    ("accept", "media_type"),
    [
        ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.stream"),
        ("text/csv;q=0.5, application/x-ndjson", "application/x-ndjson"),
        ("application/vnd.apache.parquet", "application/vnd.apache.parquet"),
        ("application/vnd.tensorboard.events", "application/vnd.tensorboard.events"),
        ("text/csv", "text/csv; charset=utf-8"),
        ("*/*", "application/json"),
        ("text/html", "application/json"),
    ],
)
def test_the_accept_header_selects_the_format(api, job_id, accept, media_type):
    assert get(api, job_id, accept=accept).headers["content-type"] == media_type


@ON_SQLITE
def test_the_format_parameter_overrides_accept_and_names_the_file(api, job_id):
    answer = get(api, job_id, accept="text/html", format="csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert f'filename="b_se___name-{job_id}.csv"' in answer.headers["content-disposition"]
    answer = get(api, job_id, format="tensorboard")
    assert 'filename="events.out.tfevents.' in answer.headers["content-disposition"]


@ON_SQLITE
@every_row("form", FORMS)
def test_a_job_without_steps_is_an_empty_file(api, make_job, form):
    job = make_job(State.RUNNING)
    assert rows_of(form, get(api, job.id, format=form).content) == []


@ON_SQLITE
@pytest.mark.parametrize("form", ["csv", "tensorboard"])
def test_an_export_that_fails_returns_an_error_status(api, job_id, form):
    answer = api.client.get(f"/api/v1/jobs/{job_id}/steps?format={form}&columns=los")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["suggestion"] == "loss"


@ON_SQLITE
def test_tensorboard_reads_every_step_at_its_time(api, job_id):
    import tensorflow as tf
    from tensorflow.core.util import event_pb2

    content = get(api, job_id, format="tensorboard", columns="loss,examples").content
    path = f"ram://{job_id}"
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(content)
    first, *rest = [
        event_pb2.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(path)
    ]
    with api.database.read() as session:
        began = session.get(Job, job_id).started_at.timestamp()
    assert (first.file_version, first.wall_time) == ("brain.Event:2", began)
    assert [event.step for event in rest] == [*range(18), *range(20, 25)]
    tags = {value.tag: value.simple_value for value in rest[-1].summary.value}
    assert tags == {"loss": 7.0, "examples": 64.0, "step_time_s": 0.5, "examples_per_s": 128.0}
    times = [event.wall_time - began for event in rest]
    assert times == pytest.approx([0.5 * (index + 1) for index in range(23)])


@pytest.fixture
def tensorboard_events(api):
    """The events of a job's TensorBoard file, without the version record."""
    numbers = itertools.count()

    def read(job_id, **query):
        import tensorflow as tf
        from tensorflow.core.util import event_pb2

        path = f"ram://{job_id}-{next(numbers)}"  # an existing file would not be truncated
        with tf.io.gfile.GFile(path, "wb") as file:
            file.write(get(api, job_id, format="tensorboard", **query).content)
        records = tf.data.TFRecordDataset(path)
        return [event_pb2.Event.FromString(record.numpy()) for record in records][1:]

    return read


def evaluations_in(events):
    """Step, wall time and metrics of the evaluations, in order of their steps."""
    found = [
        (event.step, event.wall_time, {v.tag: v.simple_value for v in event.summary.value})
        for event in events
        if any(value.tag.startswith("val_") for value in event.summary.value)
    ]
    return sorted(found, key=lambda each: each[0])


@ON_SQLITE
@pytest.mark.parametrize("query", [{}, {"max_points": 4}])
def test_tensorboard_reads_every_evaluation_at_its_step(api, job_id, tensorboard_events, query):
    evaluations = [(5, {"val_loss": 0.5, "val_auc": 0.25}), (13, {"val_loss": math.inf}), (24, {})]
    entries = [Event(EventType.EVALUATION, step, metrics) for step, metrics in evaluations]
    with api.database.write() as session:
        ingest.append(session, job_id, 1, entries, entries_written=7)
    events = tensorboard_events(job_id, **query)
    found = evaluations_in(events)
    assert [(step, metrics) for step, _, metrics in found] == evaluations[:2]
    times = {event.step: event.wall_time for event in events}
    if not query:
        assert all(wall_time == times[step] for step, wall_time, _ in found)


@ON_SQLITE
def test_a_downsampled_tensorboard_file_has_no_more_evaluations_than_points(
    api, job_id, tensorboard_events
):
    entries = [Event(EventType.EVALUATION, step, {"val_loss": 0.5}) for step in range(18)]
    with api.database.write() as session:
        ingest.append(session, job_id, 1, entries, entries_written=7)
    found = [step for step, _, _ in evaluations_in(tensorboard_events(job_id, max_points=4))]
    assert found == [2, 7, 12, 17]
    assert evaluations_in(tensorboard_events(job_id, attempt=2)) == []


@ON_SQLITE
def test_tensorboard_has_the_evaluations_of_the_requested_columns_only(
    api, job_id, tensorboard_events
):
    with api.database.write() as session:
        entries = [Event(EventType.EVALUATION, 5, {"val_loss": 0.5})]
        ingest.append(session, job_id, 1, entries, entries_written=7)
    assert evaluations_in(tensorboard_events(job_id, columns="loss")) == []


EVERYTHING = StepsQuery(
    start=0,
    end=None,
    after_step=None,
    columns=None,
    attempt=None,
    limit=None,
    max_points=None,
    form="csv",
)


@pytest.mark.parametrize("max_points", [None, 5])
def test_an_export_holds_no_database_connection_between_chunks(api, job_id, max_points):
    tables = steps_reader.all_tables(
        api.database, job_id, replace(EVERYTHING, max_points=max_points)
    )
    next(tables)
    assert api.database.engine.pool.checkedout() == 0
    list(tables)


def test_an_export_fails_if_its_job_is_deleted_meanwhile(api, job_id):
    tables = steps_reader.all_tables(api.database, job_id, EVERYTHING)
    next(tables)
    with api.database.write() as session:
        session.execute(delete(Job).where(Job.id == job_id))
    with pytest.raises(NotFound):
        list(tables)

"""Steps from a real server: every format, every reader and every sample give the same values."""

import csv
import io
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from ampclient import Client, InvalidRequest, StepBlock, StepsMissing
from ampspec.jobs import State
from ampspec.telemetry.json_values import column_from_json
from server.telemetry import steps_reader
from store.telemetry import ingest
from tests.tables import every_row

LOSSES = [0.1, math.nan, math.inf, -math.inf, 1e-30, 12345678.0]
SKIPS = [6, 7, 8]
PARTS = ("min", "max", "first", "last", "mean")


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


@pytest.fixture(autouse=True)
def short_pages(monkeypatch):
    monkeypatch.setattr(steps_reader, "PAGE", 7)


@pytest.fixture
def new_job(api, make_job):
    """Creates a job with these blocks, and returns it as the client sees it."""
    with Client(api.url, api.token) as client:

        def make(*blocks):
            job_id = make_job(State.RUNNING).id
            with api.database.write() as session:
                ingest.append(session, job_id, 1, blocks, entries_written=0)
            return client.jobs.get(job_id)

        yield make


@pytest.fixture
def job(new_job, make_block):
    """20 steps: three were skipped and halved the scale, the last two have one more column."""
    blocks = [
        make_block(3 * i, 3, loss=loss, skipped=i == 2, loss_scale=1024.0 if i < 3 else 512.0)
        for i, loss in enumerate(LOSSES)
    ]
    return new_job(*blocks, make_block(18, 2, loss=7.0, **{"loss/generator": 0.5}))


def from_csv(content):
    [names, *rows] = csv.reader(io.StringIO(content.decode()))
    plain = {"true": True, "false": False}
    return {
        name: [plain[cell] if cell in plain else float(cell or "nan") for cell in column]
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }


def from_ndjson(content):
    rows = [json.loads(line) for line in content.decode().splitlines()]
    return {name: column_from_json([row[name] for row in rows]) for name in rows[0]}


def from_arrow(table):
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}


READERS = {
    "csv": from_csv,
    "ndjson": from_ndjson,
    "arrow": lambda content: from_arrow(pa.ipc.open_stream(content).read_all()),
    "parquet": lambda content: from_arrow(pa.parquet.read_table(io.BytesIO(content))),
}


def test_steps_equal_the_stored_ones(job):
    steps = job.steps()
    assert steps["step"].tolist() == list(range(20))
    losses = [loss for loss in LOSSES for _ in range(3)] + [7.0, 7.0]
    np.testing.assert_array_equal(steps["loss"], np.float32(losses))
    assert np.flatnonzero(steps["skipped"]).tolist() == SKIPS
    np.testing.assert_array_equal(steps["loss/generator"], [*[np.nan] * 18, 0.5, 0.5])
    assert len(list(job.iter_steps())) == 3


def test_columns_have_the_requested_order(job):
    assert job.steps(columns=["skipped", "step", "loss"]).names == ("skipped", "loss")
    assert job.steps(columns=["skipped", "loss"], start=20).names == ("skipped", "loss")


@every_row("format_", READERS)
def test_every_format_has_the_same_values_as_steps(job, tmp_path, format_):
    columns = READERS[format_](job.export(tmp_path, format_).read_bytes())
    steps = columns.pop("step")
    assert list(steps) == list(range(20))
    assert StepBlock(0, columns) == job.steps()


def test_tensorboard_files_have_the_same_values_as_steps(job, tmp_path):
    import tensorflow as tf

    path = job.export(tmp_path, "tensorboard")
    assert path.name.startswith("events.out.tfevents.")
    _, *events = tf.compat.v1.train.summary_iterator(str(path))
    steps = job.steps()
    assert [event.step for event in events] == steps["step"].tolist()
    for name in steps.names:
        values = [{v.tag: v.simple_value for v in event.summary.value}[name] for event in events]
        np.testing.assert_array_equal(np.float32(values), steps[name].astype(np.float32))


@every_row("format_", READERS)
def test_an_export_can_select_columns_steps_and_the_number_of_points(job, tmp_path, format_):
    step_range = {"start": 2, "end": 19, "columns": ["loss"], "max_points": 5}
    columns = READERS[format_](job.export(tmp_path / "file", format_, **step_range).read_bytes())
    sample = job.sample(**step_range)
    assert list(columns) == ["step", *sample.names]
    for name, column in columns.items():
        np.testing.assert_array_equal(np.asarray(column, sample[name].dtype), sample[name])


def test_iter_export_yields_the_bytes_of_the_file(job, tmp_path):
    whole = job.export(tmp_path, "parquet").read_bytes()
    assert b"".join(job.iter_export("parquet")) == whole


@every_row("format_", READERS)
def test_a_job_without_steps_can_be_exported(new_job, tmp_path, format_):
    assert new_job().export(tmp_path, format_).exists()


def test_a_sample_aggregates_steps_into_points(job):
    sample = job.sample(5)
    size = sample.steps_per_point
    assert len(sample) == 20 // size
    assert sample["step"].tolist() == list(range(0, 20, size))
    assert (sample["count"].sum(), sample["skipped"].sum()) == (20, 3)
    steps = job.steps()
    for index, first in enumerate(sample["step"]):
        block = steps.between(first, first + size)
        assert sample["learning_rate.mean"][index] == block["learning_rate"].mean()
        assert sample["loss_scale.min"][index] == block["loss_scale"].min()
        np.testing.assert_array_equal(sample["loss.last"][index], block["loss"][-1])
    assert sample["loss.mean"].dtype == np.float32
    assert sample["examples.max"].tolist() == [64] * len(sample)
    assert {f"loss/generator.{part}" for part in PARTS} <= set(sample.names)
    assert "loss.mean" in sample


def test_a_sample_lists_skipped_steps_scale_changes_and_attempts(job):
    sample = job.sample(2)
    assert (sample.skipped_steps.total, sample.skipped_steps.steps.tolist()) == (3, SKIPS)
    changes = sample.scale_changes
    assert (changes.total, changes.column) == (2, ("loss_scale", "loss_scale"))
    assert changes.step.tolist() == [9, 18]
    assert (changes.before.tolist(), changes.after.tolist()) == ([1024, 512], [512, 1024])
    [attempt] = sample.attempts
    assert (attempt.attempt, attempt.start, attempt.end) == (1, 0, 20)


def test_a_sample_of_few_steps_has_one_point_per_step(job):
    sample = job.sample(start=5, end=9, columns=["loss", "skipped"])
    assert (sample.steps_per_point, sample.names) == (1, ("loss", "skipped"))
    steps = job.steps(start=5, end=9, columns=["loss", "skipped"])
    assert sample["step"].tolist() == steps["step"].tolist()
    assert StepBlock(5, {name: sample[name] for name in sample.names}) == steps


def test_an_empty_sample_has_columns_of_the_right_dtypes(new_job):
    sample = new_job().sample()
    assert (len(sample), sample.skipped_steps.total, sample.attempts) == (0, 0, ())
    assert sample["step"].dtype == np.int64
    assert sample["skipped"].dtype == np.bool_


@pytest.mark.parametrize(
    ("step_range", "message"),
    [({"columns": ["los"]}, "Did you mean 'loss'"), ({"max_points": 1}, "max_points")],
)
def test_an_unknown_column_or_too_few_points_are_an_invalid_request(
    job, tmp_path, step_range, message
):
    for ask in (job.sample, lambda **columns: job.export(tmp_path, **columns)):
        with pytest.raises(InvalidRequest, match=message):
            ask(**step_range)


def test_missing_steps_are_a_gap_in_blocks_and_in_files(new_job, make_block, tmp_path):
    job = new_job(make_block(0, 9), make_block(12, 3))
    steps = [step for block in job.iter_steps() for step in block["step"].tolist()]
    assert steps == [*range(9), *range(12, 15)]
    assert from_csv(job.export(tmp_path).read_bytes())["step"] == steps
    with pytest.raises(StepsMissing, match="Steps 9 to 11 are missing"):
        job.steps()
    assert len(job.steps(start=12)) == 3

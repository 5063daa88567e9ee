import io
import json
import math

import pyarrow.parquet
import pytest

from ampclient._transfer.exports import MAX_TRIES
from ampspec.jobs import State
from store.telemetry import ingest
from tests.tables import every_row
from tests.waiting import DEADLINE_S


@pytest.fixture
def job(server):
    server.add_job("a", state="succeeded")
    server.add_steps("a", 3)
    return "a"


def test_export_prints_the_path_and_size_of_the_file(ampctl, job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = ampctl("export", job)
    assert (result.code, result.out, result.err) == (0, "digits-a.csv (69 B)\n", "")
    assert (tmp_path / "digits-a.csv").read_text().splitlines()[0] == "step,loss,skipped"


def test_export_to_a_path_as_json(ampctl, job, tmp_path):
    path = tmp_path / "there.csv"
    result = ampctl("export", job, "-o", str(path), "--columns", "loss", "--start", "2", "--json")
    assert result.json() == {"path": str(path), "format": "csv", "size_bytes": 31}
    assert path.stat().st_size == 31


def test_export_to_standard_output(ampctl, job):
    result = ampctl("export", job, "--output", "-", "--columns", "skipped", "--end", "1")
    assert (result.code, result.out) == (0, "step,skipped\n0,False\n")


def test_export_of_an_unknown_column_fails(ampctl, job, tmp_path):
    result = ampctl("export", job, "-o", str(tmp_path / "x"), "--columns", "lossy")
    assert result.code == 3
    assert "lossy" in result.err
    assert not (tmp_path / "x").exists()


def test_an_incomplete_export_fails_and_leaves_no_file(ampctl, job, server, respond, tmp_path):
    server.next_responses = [server.handle] + [respond(200, text="step,loss\n0,1")] * MAX_TRIES
    result = ampctl("export", job, "-o", str(tmp_path / "here"))
    assert result.code == 6
    assert "No partial file is kept" in result.err
    assert "(connection_failed)" in result.err
    assert not (tmp_path / "here").exists()


@every_row(
    "arguments",
    [
        ["--format", "xml"],
        ["--columns", ","],
        ["--start", "-1"],
        ["--max-points", "1"],
        ["--output", "-", "--json"],
    ],
)
def test_wrong_usage_exits_2(ampctl, job, arguments):
    assert ampctl("export", job, *arguments).code == 2


def test_a_binary_format_is_not_written_to_a_terminal(ampctl, job, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    result = ampctl("export", job, "-f", "parquet", "-o", "-")
    assert result.code == 2
    assert "parquet is a binary format" in result.err


@pytest.fixture
def real_job(api, configured, make_job, make_block):
    """A job of 30 steps on a real server, which the connection file names."""
    configured.write_text(json.dumps({"url": api.url, "token": str(api.token)}))
    job_id = make_job(State.RUNNING, name="digits").id
    with api.database.write() as session:
        ingest.append(session, job_id, 1, [make_block(0, 30, skipped=True)], entries_written=0)
    return job_id


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


@every_row(
    ("format_", "name"),
    [
        ("csv", "digits-{}.csv"),
        ("ndjson", "digits-{}.ndjson"),
        ("arrow", "digits-{}.arrows"),
        ("parquet", "digits-{}.parquet"),
        ("tensorboard", "events.out.tfevents.*.{}"),
    ],
)
def test_every_format_can_be_exported(ampctl, real_job, tmp_path, format_, name):
    result = ampctl("export", real_job, "--format", format_, "-o", f"{tmp_path}/files/")
    assert result.code == 0
    [path] = (tmp_path / "files").glob(name.format(real_job))
    assert result.out.startswith(f"{path} (")


def test_a_binary_format_can_be_written_to_standard_output(start_ampctl, real_job):
    process = start_ampctl("export", real_job, "-f", "parquet", "-o", "-", "--max-points", "10")
    content = process.stdout.buffer.read()
    assert process.wait(timeout=DEADLINE_S) == 0
    table = pyarrow.parquet.read_table(io.BytesIO(content))
    assert sum(table["count"].to_pylist()) == 30


def test_steps_can_be_aggregated_into_points(ampctl, real_job):
    result = ampctl("steps", real_job, "--max-points", "2", "--columns", "loss,loss_scale")
    names, first, last = (line.split() for line in result.out.splitlines())
    assert names[:4] == ["step", "count", "skipped", "loss.min"]
    assert (first[:4], first[-1], last[0]) == (["0", "15", "15", "0"], "2^10", "15")
    document = ampctl("steps", real_job, "--max-points", "2", "--json").json()
    assert (document["count"], document["loss.last"]) == ([15, 15], [14, 29])
    few = ampctl("steps", real_job, "--max-points", "9", "--start", "29", "--format", "ndjson")
    assert json.loads(few.out)["skipped"] is True


def test_an_empty_range_of_steps_prints_nothing(ampctl, real_job):
    result = ampctl("steps", real_job, "--max-points", "9", "--start", "30")
    assert (result.code, result.out) == (0, "")


def test_steps_as_csv_and_ndjson_keep_the_stored_digits(ampctl, api, real_job, make_block):
    with api.database.write() as session:
        ingest.append(session, real_job, 1, [make_block(30, 1, loss=0.1)], entries_written=1)
        ingest.append(session, real_job, 1, [make_block(31, 1, loss=math.nan)], entries_written=2)
    arguments = ["steps", real_job, "--start", "30", "--columns", "loss,skipped", "--format"]
    assert ampctl(*arguments, "csv").out == "step,loss,skipped\n30,0.1,false\n31,nan,false\n"
    lines = ampctl(*arguments, "ndjson").out.splitlines()
    assert json.loads(lines[0]) == {"step": 30, "loss": 0.1, "skipped": False}
    assert json.loads(lines[1])["loss"] == "NaN"

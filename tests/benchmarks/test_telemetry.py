"""The telemetry benchmarks, with few steps and without MLflow."""

import importlib
import os
import sys
from types import SimpleNamespace

import pytest

from ampspec.jobs import JobSpec
from ampspec.telemetry import COLUMN_DTYPES
from ampspec.telemetry.steps.codec import decode

NAMES = ("storage_size", "json_process", "service_processes", "telemetry", "mlflow_process")


@pytest.fixture
def under_load(monkeypatch, request):
    """The modules of benchmarks/under_load."""
    monkeypatch.syspath_prepend(request.config.rootpath / "benchmarks")
    return SimpleNamespace(**{n: importlib.import_module(f"under_load.{n}") for n in NAMES})


@pytest.fixture
def script(under_load):
    """Import a benchmark by its name."""
    return importlib.import_module


@pytest.fixture(scope="module")
def running_server(request):
    """A service and its server process, with which a benchmark measures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(request.config.rootpath / "benchmarks")
        parts = importlib.import_module("under_load.service_processes")
        with parts.service_environment("sqlite") as service, parts.api(service) as server:
            yield service, server


def test_the_synthetic_steps_have_all_columns_and_skips(under_load):
    made = under_load.telemetry
    block = made.block(1000, 5000)
    assert block.names == tuple(COLUMN_DTYPES)
    assert block["step"][block["skipped"]].tolist() == made.skipped_between(1000, 6000)
    assert made.skipped_between(0, 10**7)[-1] < 10**7
    assert len(made.skipped_between(0, 100_000)) == 49
    frame = made.steps_frame(block)
    assert decode(frame.payload) == block
    assert frame.header["stats"]["skipped"] == 2
    assert frame.size_bytes > len(frame.payload)


@pytest.mark.parametrize("merges", [False, True])
def test_the_ingest_rate_is_measured(under_load, script, merges):
    benchmark, made = script("ingest_rate"), under_load.telemetry
    frames = [made.steps_frame(block) for block in made.blocks(3000, 100)]
    with under_load.service_processes.service_environment("sqlite") as service:
        rate, merged = benchmark.ingest_rate(
            service.database, frames[:10], frames[10:], merges=merges
        )
    assert rate > 0
    assert merged >= 0


def test_the_storage_size_per_step_is_measured(under_load):
    sizes = under_load.storage_size.storage_size("sqlite", 20_000, 250)
    assert 5 < sizes["bytes_per_step"] <= sizes["growth_by_the_first_job"]


@pytest.mark.slow
def test_ingest_latency_finds_every_step_of_every_job(script):
    found = script("ingest_latency").measure("sqlite", jobs=3, blocks=3, sample=2)
    assert (found["blocks_seen"], found["blocks_not_seen"], found["steps_lost"]) == (6, 0, 0)
    assert found["steps_stored"] == (3 * 3 + 0 + 21 + 42) * 100
    assert 0 < found["since_handed"]["p50_ms"] <= found["since_due"]["worst_ms"]


@pytest.mark.slow
def test_plot_latency_is_measured_for_every_range(script):
    plot = script("plot_latency")
    lengths = {"long": 30_000, "short": 3000}
    with (
        plot.served("sqlite", lengths) as (running, ids),
        plot.connected(running, ids, lengths) as jobs,
    ):
        taken_ms = [
            job.plotted(part, columns)
            for job in jobs.values()
            for part in [*plot.ranges(2), plot.WHOLE]
            for columns in plot.COLUMNS
        ]
    assert len(taken_ms) == 12
    assert min(taken_ms) > 0


@pytest.mark.parametrize(
    "hidden",
    [
        {"data": {"step": [0], "skipped": [0]}},
        {"data": {"step": [0]}, "skipped_steps": {"total": 0, "steps": []}},
        {"skipped_steps": {"total": 1, "steps": [8]}},
    ],
)
def test_a_plot_that_hides_a_skipped_step_is_an_error(script, hidden):
    plot = script("plot_latency")
    good = {"data": {"step": [0], "skipped": [1]}, "skipped_steps": {"total": 1, "steps": [7]}}
    plot.check(good, [7])
    with pytest.raises(AssertionError):
        plot.check(good | hidden, [7])


def test_an_export_is_measured_and_complete(under_load, script, running_server):
    export, (service, server) = script("export_memory"), running_server
    job_id = under_load.telemetry.create_finished_job(service.database, 5000)
    found = export.measure(server, job_id, "csv", 5000)
    assert 0 < found["before_mb"] <= found["peak_mb"]
    assert found["file_mb"] > 0.1


def test_peak_memory_is_that_of_the_process(script):
    assert script("export_memory").high_water_mb(os.getpid()) > 10


def test_the_service_spec_is_valid(script):
    spec = JobSpec.parse(script("telemetry_overhead").spec(steps=5))
    assert spec.train.steps == 5


def test_a_process_that_ends_is_an_error(under_load):
    process = under_load.json_process.JsonProcess.with_module(sys.executable, ["compare.problems"])
    with process as ended, pytest.raises(RuntimeError, match="ended with 0"):
        ended.receive()


@pytest.mark.slow
def test_dataset_uploads_are_measured(script, running_server, tmp_path):
    benchmark, (_, server) = script("dataset_upload"), running_server
    for upload in ("put", "sdk"):  # each of another file, which the server does not have
        file, disk, sha256 = benchmark.write_file(tmp_path, 2 * 2**20)
        assert min(disk, sha256) > 0
        found = benchmark.measure(server, file, upload)
        assert found["mb_per_s"] > 0
        assert found["high_water_mb"] > 10

"""The benchmark of short jobs with `engine: auto`, without training any."""

import importlib

import pytest

from ampspec.jobs import JobSpec


@pytest.fixture
def auto_engine(monkeypatch, request):
    """The module benchmarks/auto_engine.py."""
    monkeypatch.syspath_prepend(request.config.rootpath / "benchmarks")
    return importlib.import_module("auto_engine")


def test_every_benchmark_job_is_a_valid_spec(auto_engine):
    for name, document in auto_engine.jobs("text.txt").items():
        assert JobSpec.parse(document).train.steps, name


def test_auto_is_compared_with_the_fastest_named_engine(auto_engine, monkeypatch):
    walls = {"graph": [4, 9, 4], "auto": [5, 3, 3.3], "xla_step": [8, 8, 8], "xla_loop": [3, 3, 7]}
    limits = []

    def measured(job, engine, limit_s):
        limits.append((engine, limit_s))
        wall_s = walls[engine].pop(0)
        return {"wall_s": wall_s, "cpu_s": 2 * wall_s, "autotune_s": 0.1, "engine": "xla_loop"}

    monkeypatch.setattr(auto_engine, "measure", measured)
    found = auto_engine.compare({}, 3)
    assert found["auto_over_best"] == {"wall_s": 1.1, "cpu_s": 1.1}
    assert found["engines"]["graph"] == {"wall_s": 4, "cpu_s": 8, "autotune_s": 0.1}
    # Engines without a time limit run first, and the order rotates.
    assert limits[:2] == [("graph", None), ("auto", None)]
    assert [engine for engine, _ in limits[::4]] == ["graph", "auto", "xla_step"]
    assert dict(limits)["xla_loop"] == auto_engine.LIMIT_S + 4 * auto_engine.LIMIT_RATIO


def test_an_engine_that_takes_too_long_runs_once(auto_engine, monkeypatch):
    measured_engines = []

    def measured(job, engine, limit_s):
        measured_engines.append(engine)
        figures = {"wall_s": 1, "cpu_s": 1, "autotune_s": 0, "engine": "graph"}
        return None if engine == "xla_loop" else figures

    monkeypatch.setattr(auto_engine, "measure", measured)
    found = auto_engine.compare({}, 2)
    assert found["over_the_limit"] == ["xla_loop"]
    assert "xla_loop" not in found["engines"]
    assert measured_engines.count("xla_loop") == 1

"""`ampctl ranges`: the worst layers, and what repairs them."""

import pytest

from ampspec.precision.precision import float32_overrides
from ampspec.telemetry.ranges.number_formats import FLOAT16
from ampspec.telemetry.ranges.range_report import range_report
from ampspec.telemetry.ranges.range_samples import RangeSample
from tests.range_layers import GOOD, HOT, layer


@pytest.fixture
def job(server):
    server.add_job("a")
    return "a"


WINDOW = {"min_subnormal": -24, "min_normal": -14, "max": 15}


def found(*layers, scale=1024.0):
    """What a server returns for one sample."""
    sample = RangeSample(3, {"model": scale}, layers)
    report = range_report([sample], FLOAT16)
    overrides = float32_overrides(report.float32_layers)
    return {
        "steps": [3],
        "samples": [{"step": 3, **sample.to_json()}],
        "report": {**report.to_json(), "overrides": overrides, "window": WINDOW},
    }


def test_the_worst_layers_are_a_table_with_the_override(ampctl, server, job):
    server.ranges[job] = found(GOOD, HOT)
    out = ampctl("ranges", job).out
    lines = out.splitlines()
    assert lines[1].split()[:2] == ["hot", "activations"]
    assert "50 %" in lines[1]
    assert "overflow" in lines[1]
    assert "  - {layers: '^hot$', dtype: float32}" in lines
    assert len(ampctl("ranges", job, "--limit", "1").out.splitlines()) == len(lines) - 3


def test_a_scale_that_does_not_suit_comes_with_one_that_does(ampctl, server, job):
    server.ranges[job] = found(layer("small", [1.0], [1e-9, 1.5e-9]), scale=1.0)
    out = ampctl("ranges", job).out
    assert "Set loss_scale: {mode: fixed, scale:" in out
    assert "precision.overrides" not in out


def test_json_is_the_answer_of_the_server(ampctl, server, job):
    server.ranges[job] = found(GOOD, HOT)
    assert ampctl("ranges", job, "--json").json() == server.ranges[job]


def test_a_job_without_samples_prints_a_note(ampctl, job):
    result = ampctl("ranges", job)
    assert (result.code, result.out) == (0, "")
    assert "has no samples" in result.err

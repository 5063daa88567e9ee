"""`ampctl ranges`: the worst layers, and what repairs them."""

import pytest

from ampspec.precision.precision import float32_overrides
from ampspec.telemetry.ranges.number_formats import FLOAT16
from ampspec.telemetry.ranges.range_report import range_report
from ampspec.telemetry.ranges.range_samples import RangeSample
from ampspec.telemetry.ranges.scale_advice import loss_scale_advice
from tests.range_layers import GOOD, HOT, layer


@pytest.fixture
def job(server):
    server.add_job("a")
    return "a"


WINDOW = {"min_subnormal": -24, "min_normal": -14, "max": 15}


def found(*layers, scale=1024.0, loss_scale=None):
    """What a server returns for one sample."""
    sample = RangeSample(3, {"model": scale}, layers)
    report = range_report([sample], FLOAT16)
    overrides = float32_overrides(report.float32_layers)
    return {
        "steps": [3],
        "samples": [{"step": 3, **sample.to_json()}],
        "report": {
            **report.to_json(),
            "overrides": overrides,
            "window": WINDOW,
            "loss_scale": loss_scale_advice(report.scales, loss_scale or {"mode": "none"}),
        },
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
    assert "scale too low" in out


def test_a_dynamic_loss_scale_stays_dynamic_and_begins_elsewhere(ampctl, server, job):
    dynamic = {"mode": "dynamic", "initial": 2.0**24, "minimum": 2.0**20, "growth_interval": 10}
    large = layer("large", [1.0], [8.0, 16.0])
    server.ranges[job] = found(large, scale=2.0**24, loss_scale=dynamic)
    out = ampctl("ranges", job).out
    advice = "mode: dynamic, initial: 1024.0, minimum: 1024.0, growth_interval: 10"
    assert f"Set loss_scale: {{{advice}}}" in out
    assert "scale too high" in out


def test_json_is_the_answer_of_the_server(ampctl, server, job):
    server.ranges[job] = found(GOOD, HOT)
    assert ampctl("ranges", job, "--json").json() == server.ranges[job]


def test_a_job_without_samples_prints_a_note(ampctl, job):
    result = ampctl("ranges", job)
    assert (result.code, result.out) == (0, "")
    assert "has no samples" in result.err

"""`python -m ampcore ranges` and `perturb` measure the first step of a job."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from ampcore.cli.app import app

SPEC = {
    "model": {"kind": "mlp", "hidden": [8]},
    "data": {"kind": "digits", "batch_size": 32},
    "precision": {"policy": "mixed_float16"},
    "train": {"steps": 3, "checkpoint_every_s": None},
    "runtime": {"engine": "graph"},
    "telemetry": {"ranges": {"max_time_share": None}},
}


@pytest.fixture
def spec_file(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(SPEC))
    return str(path)


def invoke(*arguments):
    return CliRunner().invoke(app, arguments)


def test_ranges_prints_deviations_and_multipliers(spec_file):
    result = invoke("ranges", spec_file, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [one["layer"] for one in document["unit_scales"]] == ["dense_1", "predictions"]
    assert document["report"]["number_format"] == "float16"
    lines = invoke("ranges", spec_file, "--format", "bfloat16").stdout.splitlines()
    assert lines[0].startswith("layer        std of outputs  multiply by")
    assert lines[1].startswith("dense_1 ")
    assert lines[-1] == "bfloat16 suits all layers at the loss scale used in the sampled step."


def test_perturb_prints_the_change_by_each_layer(spec_file):
    result = invoke("perturb", spec_file, "--json")
    assert result.exit_code == 0, result.output
    [layer] = json.loads(result.stdout)["layers"]
    assert (layer["layer"], layer["is_risky"]) == ("dense_1", False)
    assert 0 < layer["gradient_change"] < 0.01
    text = invoke("perturb", spec_file).stdout
    assert text.startswith("layer    gradient change  loss change")
    assert "No layer is risky" in text


def test_an_unknown_format_is_refused(spec_file):
    result = invoke("perturb", spec_file, "--format", "int8")
    assert result.exit_code == 2
    assert "--format int8: expected one of float16, bfloat16" in result.stderr


def test_the_summary_of_a_run_says_what_the_formats_would_do(spec_file):
    result = invoke("run", spec_file, "--json")
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)["ranges"]) == {"float16", "bfloat16"}

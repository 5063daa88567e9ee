import json
import re

import pytest
from typer.testing import CliRunner

from ampcore.cli.app import app


@pytest.fixture
def check():
    """Runs `check` in this process."""
    return lambda *arguments: CliRunner().invoke(app, ["check", *arguments])


def test_check_prints_the_figures_layers_and_findings_of_a_job(check, spec_file):
    result = check(spec_file, "--set", "precision.policy=mixed_float16", "--layers")
    assert result.exit_code == 0
    assert "parameters   610\n" in result.stdout
    assert re.search(r"^dense_1 +Dense +8 +520 +512 +float16 +float32$", result.stdout, re.M)
    assert "kept_in_float32 at /precision/policy" in result.stdout


def test_check_prints_its_report_as_json(check, spec_file):
    report = json.loads(check(spec_file, "--json").stdout)
    assert report["figures"]["parameters"] == 610
    assert report["findings"] == []


def test_check_fails_for_a_job_that_could_not_run(check, spec_file, capfd):
    overrides = "precision.overrides=[{layers: nothing, dtype: float32}]"
    result = check(spec_file, "--set", overrides)
    assert result.exit_code == 1
    assert "error: No layer's path matches 'nothing'" in result.stdout
    assert check(spec_file, "--set", "data={kind: npz, path: none.npz}").exit_code == 1
    assert "invalid_data: none.npz" in capfd.readouterr().err
    assert check(spec_file, "--set", "modle=1").exit_code == 2

"""Each example runs with the command that the docs give; tests/e2e trains them on a server."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ampcore.cli.app import app
from ampspec.jobs import JobSpec

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*.yaml"))
STEPS = 3


@pytest.mark.parametrize("name", ["mlp-synthetic", "lstm-lm"])
def test_an_example_trains_with_generated_data_and_with_a_data_file(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    short = ["--set", f"train.steps={STEPS}", "--set", "telemetry.ranges.enabled=false"]
    done = CliRunner().invoke(app, ["run", f"examples/{name}.yaml", "--json", *short])
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary["steps"] == STEPS
    assert summary["parameters"] > 0


def test_there_is_an_example_of_every_model():
    from ampcore.models import BUILDERS

    files = [*EXAMPLES, ROOT / "examples" / "custom-package" / "job.yaml"]
    assert {JobSpec.from_file(file).model.kind for file in files} == set(BUILDERS)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_starts_with_a_comment_and_is_named_after_its_file(file):
    assert file.read_text(encoding="utf-8").startswith("# ")
    assert JobSpec.from_file(file).name == file.stem

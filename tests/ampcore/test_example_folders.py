"""The examples with data of their own: data, training, and a script that needs only Keras."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ampcore.__main__ import app
from tests.waiting import DEADLINE_S

EXAMPLES = Path(__file__).parents[2] / "examples"
LEAST = {
    "table": ("val_mae", 40.0),
    "pictures": ("val_accuracy", 0.6),
    "segmentation": ("val_accuracy", 0.9),
}


def python(folder, *command):
    """The output of a script, run in the folder."""
    environ = os.environ | {"KERAS_BACKEND": "tensorflow", "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", LEAST)
def test_an_example_trains_and_its_model_gives_the_metric_on_raw_data(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    python(tmp_path, EXAMPLES / name / "make_data.py")
    job = str(EXAMPLES / name / "job.yaml")
    options = ["--output", "out", "--json", "--set", "runtime.engine=graph"]
    datasets = ["--dataset", "shapes=shapes"] if name == "pictures" else []
    done = CliRunner().invoke(app, ["run", job, *options, *datasets])
    assert done.exit_code == 0, done.output
    metrics = json.loads(done.stdout)["metrics"]
    metric, limit = LEAST[name]
    assert metrics[metric] < limit if metric == "val_mae" else metrics[metric] > limit
    shown = python(tmp_path, EXAMPLES / name / "predict.py", "out")
    [found] = map(float, re.findall(r"\d+\.\d+", shown))
    # The saved model computes in the dtypes of the policy on other batch sizes.
    assert found == pytest.approx(metrics[metric], rel=0.02)


def test_an_own_keras_model_with_two_inputs_and_outputs_is_trained_locally(tmp_path):
    shown = python(tmp_path, EXAMPLES / "own-keras-model" / "train.py", "out")
    found = dict(re.findall(r"^(val_\w+): (\S+)$", shown, re.MULTILINE))
    assert float(found["val_rented_accuracy"]) > 0.85
    assert float(found["val_price_mae"]) < 0.5
    assert (tmp_path / "out" / "model.keras").is_file()

"""The examples with data of their own: data, training, and a script that needs only Keras."""

import json
import os
import re
import subprocess
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ampcore.cli.app import app
from tests.waiting import DEADLINE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("stack"),
]  # which has the forked Python, too

EXAMPLES = Path(__file__).parents[2] / "examples"
OPTIONS = {
    "pictures": ("--dataset", "shapes=shapes"),
    "bundle": ("--code", str(EXAMPLES / "bundle/code"), "--dataset", "points=points.npz"),
}
LEAST = {
    "table": ("val_mae", 40.0),
    "pictures": ("val_accuracy", 0.6),
    "segmentation": ("val_accuracy", 0.9),
    "bundle": ("val_accuracy", 0.9),
}


@pytest.fixture
def python(python_commands):
    """Runs a script in a folder, and returns its output."""
    return partial(run_python, python_commands / "python")


def run_python(program, folder, *command):
    done = end_of_python(program, folder, *command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def end_of_python(program, folder, *command):
    environ = os.environ | {"KERAS_BACKEND": "tensorflow", "PYTHONPATH": str(EXAMPLES.parent)}
    return subprocess.run(
        [program, *map(str, command)],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_a_script_without_its_argument_says_how_to_call_it(python_commands, tmp_path):
    scripts = [path for path in EXAMPLES.glob("*/*.py") if "sys.argv[1]" in path.read_text()]
    assert len(scripts) >= 9
    for script in scripts:
        done = end_of_python(python_commands / "python", tmp_path, script)
        assert done.returncode == 1, script
        assert done.stderr.splitlines()[-1].startswith(f"usage: python {script.name} FOLDER")


@pytest.mark.parametrize("name", LEAST)
def test_an_example_trains_and_its_model_gives_the_metric_on_raw_data(
    name, python, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    python(tmp_path, EXAMPLES / name / "make_data.py")
    job = str(EXAMPLES / name / "job.yaml")
    options = ["--output", "out", "--json", "--set", "runtime.engine=graph"]
    done = CliRunner().invoke(app, ["run", job, *options, *OPTIONS.get(name, ())])
    assert done.exit_code == 0, done.output
    metrics = json.loads(done.stdout)["metrics"]
    metric, limit = LEAST[name]
    assert metrics[metric] < limit if metric == "val_mae" else metrics[metric] > limit
    shown = python(tmp_path, EXAMPLES / name / "predict.py", "out")
    [found] = map(float, re.findall(r"\d+\.\d+", shown))
    # The saved model computes in the dtypes of the policy on other batch sizes.
    assert found == pytest.approx(metrics[metric], rel=0.02)


def test_pictures_are_named_by_the_user_where_no_class_is_known(python_commands, tmp_path):
    script = EXAMPLES / "pictures" / "predict.py"
    done = end_of_python(python_commands / "python", tmp_path, script, "out")
    assert done.returncode == 1
    assert "Name those to classify: python predict.py FOLDER PICTURE" in done.stderr
    assert done.stdout == ""


def test_a_job_starts_from_the_weights_of_another_one(python, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = EXAMPLES / "transfer"
    python(tmp_path, folder / "make_data.py")

    def train(name, *options):
        command = ["run", str(folder / f"{name}.yaml"), "--output", name, "--json"]
        done = CliRunner().invoke(app, [*command, "--set", "runtime.engine=graph", *options])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)["metrics"]["val_accuracy"]

    assert train("first") > 0.85
    accuracy = train("second", "--init", "first/weights.safetensors")
    assert accuracy > 0.6
    [found] = map(float, re.findall(r"\d+\.\d+", python(tmp_path, folder / "predict.py", "second")))
    assert found == pytest.approx(accuracy, rel=0.02)


def test_an_own_keras_model_with_two_inputs_and_outputs_is_trained_locally(python, tmp_path):
    folder = EXAMPLES / "custom-keras-model"
    trained = metrics_in(python(tmp_path, folder / "train.py", "out"))
    assert trained["val_rented_accuracy"] > 0.85
    assert trained["val_price_mae"] < 0.5
    predicted = metrics_in(python(tmp_path, folder / "predict.py", "out"))
    assert predicted == pytest.approx({name: trained[name] for name in predicted}, abs=0.01)
    assert len(predicted) == 2


def metrics_in(text):
    return {name: float(value) for name, value in re.findall(r"^(val_\w+): (\S+)$", text, re.M)}

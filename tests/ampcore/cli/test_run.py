import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ampcore.cli.app import app
from ampspec.jobs import JobSpec
from tests.waiting import DEADLINE_S

EXAMPLES = Path(__file__).parents[3] / "examples"
SAMPLED = ["--set", "model.kind=mlp", "--set", "train.steps=2"]
SMALL = [*SAMPLED, "--set", "telemetry.ranges.enabled=false"]


@pytest.fixture
def cli():
    """Runs the command line in this process."""
    return lambda *arguments, **options: CliRunner().invoke(app, ["run", *arguments], **options)


def test_a_job_is_trained_its_model_saved_and_its_summary_printed(cli, spec_file, tmp_path):
    result = cli(spec_file, *SMALL, "--output", str(tmp_path / "output"), "--json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert summary["steps"] == 2
    assert (tmp_path / "output" / "model.keras").is_file()


def test_the_text_summary_shows_every_value_in_full(cli, spec_file):
    result = cli(spec_file, *SAMPLED)
    *lines, float16, bfloat16 = result.stdout.splitlines()
    values = dict(line.split() for line in lines)
    assert values["steps"] == "2"
    assert len(values["weights_digest"]) == 64
    assert "model_file" not in values
    assert float16.startswith("float16 suits all layers")
    assert bfloat16.startswith("bfloat16 suits all layers")
    assert "not saved" in result.stderr


def test_progress_is_plain_lines_without_a_terminal(cli, spec_file, capfd):
    cli(spec_file, *SMALL)
    text = capfd.readouterr().err
    assert "mlp-float32: step 1/2  loss " in text
    assert "mlp-float32: after 2 steps: validation loss" in text
    assert "\x1b" not in text
    assert "oneDNN" not in text


def test_an_evaluation_that_is_not_finite_fails_and_names_the_validation_examples(
    cli, spec_file, tmp_path, capfd
):
    file, y = tmp_path / "outliers.npz", np.arange(8) % 2
    x = np.ones((8, 4), np.float32)
    outliers = x.copy()
    outliers[5] = 3e38
    np.savez(file, x_train=x, y_train=y, x_test=outliers, y_test=y)
    data = f"data={{kind: npz, path: {file}, batch_size: 4, validation_split: 0.0}}"
    result = cli(spec_file, *SMALL, "--json", "--set", data)
    error = capfd.readouterr().err
    assert result.exit_code == 1
    assert "non_finite_result" in error
    assert "validation example has values that are not finite, or far from all others: 5" in error


def test_weights_that_are_not_finite_are_a_failure(cli, spec_file, capfd):
    settings = ["--set", "optimizer={kind: sgd, learning_rate: 1e6}", "--set", "train.steps=9"]
    result = cli(spec_file, "--json", "--set", "model.activation=linear", *settings)
    assert result.exit_code == 1
    assert "non_finite_result: No model was saved after 9 steps" in capfd.readouterr().err


def test_an_invalid_spec_exits_with_2_and_lists_every_problem(cli, spec_file):
    result = cli(spec_file, "--set", "model.kind=mlpp", "--set", "train.epochs=0")
    assert result.exit_code == 2
    assert "/model/kind" in result.stderr
    assert "/train/epochs" in result.stderr


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"model: [", "not_yaml"), (b"\xff\xfe", "UTF-8"), (b"model: {kind: mlp}", "/data")],
)
def test_input_that_is_not_a_spec_exits_with_2(cli, content, text):
    result = cli("-", input=content)
    assert result.exit_code == 2
    assert text in result.stderr or text == "not_yaml"
    assert "problem" in result.stderr


def test_code_for_another_kind_of_model_exits_with_2(cli, spec_file, tmp_path):
    result = cli(spec_file, "--code", str(tmp_path))
    assert result.exit_code == 2
    assert "/model/kind: Expected bundle, since a folder with code is given" in result.stderr


def test_a_missing_file_exits_with_2(cli, tmp_path):
    result = cli(str(tmp_path / "none.yaml"))
    assert result.exit_code == 2
    assert "none.yaml: No such file" in result.stderr


def test_a_job_that_fails_exits_with_1_and_prints_its_reason(cli, spec_file, capfd, tmp_path):
    result = cli(
        spec_file, "--set", "data={kind: npz, path: /etc/passwd}", "--data-root", str(tmp_path)
    )
    assert result.exit_code == 1
    assert "invalid_data: /etc/passwd, path: expected" in capfd.readouterr().err


def test_resume_continues_from_the_newest_checkpoint(cli, spec_file, tmp_path):
    often = ["--set", "train.checkpoint_every_s=0.001", "--json"]

    def steps(count, folder, *options):
        length = ["--set", f"train.steps={count}"]
        return cli(spec_file, *SMALL, *often, *length, "--output", str(tmp_path / folder), *options)

    assert steps(2, "a").exit_code == 0
    resumed, whole = steps(5, "a", "--resume"), steps(5, "b")
    digests = {json.loads(result.stdout)["weights_digest"] for result in (resumed, whole)}
    assert len(digests) == 1


def test_resume_needs_an_output_folder(cli, spec_file):
    result = cli(spec_file, "--resume")
    assert result.exit_code == 2
    assert "--resume needs --output" in result.stderr


@pytest.mark.slow
def test_control_c_exits_with_130_and_saves_a_checkpoint(spec_file, tmp_path):
    settings = ["--set", "train.epochs=1000000", "--set", "runtime.engine=graph"]
    output = ["--output", str(tmp_path / "output"), *settings]
    command = [sys.executable, "-m", "ampcore", "run", spec_file, *output]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            first = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Interrupted after" in rest
    assert "continue with --resume" in rest
    assert len(list((tmp_path / "output" / "checkpoints").iterdir())) == 1
    # TensorFlow's messages at start-up would come before the first step.
    assert "mlp-float32: step 1/" in first


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_example_is_a_valid_spec(file):
    assert JobSpec.from_file(file).name


NPZ = ["--set", "data={kind: npz, dataset: quads, batch_size: 2}"]


def test_a_dataset_is_read_from_the_file_on_the_command_line(cli, spec_file, tmp_path):
    x, y = np.zeros((8, 2, 2), np.uint8), np.arange(8) % 2
    np.savez(tmp_path / "local.npz", x_train=x, y_train=y)
    file = f"quads={tmp_path / 'local.npz'}"
    result = cli(spec_file, *SMALL, *NPZ, "--dataset", file, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["steps"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "quads, dataset: expected a dataset with a local file"),
        (["--dataset", "quads"], "expected NAME=FILE"),
        (["--dataset", "quads="], "expected NAME=FILE"),
        (["--dataset", "Quads=x"], "expected the name of a dataset"),
    ],
)
def test_a_missing_or_malformed_dataset_file_is_an_error(
    *, cli, spec_file, options, message, capfd
):
    result = cli(spec_file, *SMALL, *NPZ, *options)
    assert result.exit_code in (1, 2)
    assert message in result.stderr + capfd.readouterr().err


def test_the_best_evaluation_and_an_early_end_are_printed(cli, spec_file, capfd):
    stopping = "train.early_stopping={patience: 1, min_delta: 1000.0}"
    model = ["--set", "model.kind=mlp", "--set", "runtime.engine=graph"]
    result = cli(spec_file, *model, "--set", "train.epochs=9", "--set", stopping)
    progress = capfd.readouterr().err
    assert "Stopped early after epoch 1: val_loss has not improved in 1 evaluation;" in progress
    assert "(the best so far)" in progress
    [best] = [line for line in result.stdout.splitlines() if line.startswith("best ")]
    assert best.split()[1:3] == ["metric", "val_loss,"]

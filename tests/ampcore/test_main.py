import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ampcore.__main__ import app
from ampcore.spec import JobSpec

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ["--set", "model.kind=mlp", "--set", "train.steps=2"]


@pytest.fixture
def cli():
    """Runs the command line in this process."""
    return lambda *arguments, **options: CliRunner().invoke(app, ["run", *arguments], **options)


@pytest.fixture
def spec_file(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("model: {kind: mlp, hidden: [8]}\ndata: {kind: digits, batch_size: 256}\n")
    return str(file)


def test_a_job_is_trained_its_model_saved_and_its_summary_printed(cli, spec_file, tmp_path):
    result = cli(spec_file, *SMALL, "--output", str(tmp_path / "output"), "--json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert summary["steps"] == 2
    assert (tmp_path / "output" / "model.keras").is_file()


def test_the_summary_for_people_names_every_value_in_full(cli, spec_file):
    result = cli(spec_file, *SMALL)
    values = dict(line.split() for line in result.stdout.splitlines())
    assert values["steps"] == "2"
    assert len(values["weights_digest"]) == 64
    assert "model_file" not in values
    assert "not saved" in result.stderr


def test_progress_is_plain_lines_where_there_is_no_terminal(cli, spec_file, capfd):
    cli(spec_file, *SMALL)
    said = capfd.readouterr().err
    assert "mlp-float32: step 1/2  loss " in said
    assert "mlp-float32: after 2 steps: validation loss" in said
    assert "\x1b" not in said
    assert "oneDNN" not in said


def test_numbers_that_json_cannot_write_become_strings(cli, spec_file):
    settings = ["--set", "optimizer={kind: sgd, learning_rate: 1e6}", "--set", "train.steps=9"]
    result = cli(spec_file, "--json", "--set", "model.activation=linear", *settings)
    assert json.loads(result.stdout)["final_loss"] in ("NaN", "Infinity")


def test_a_bad_spec_ends_with_2_and_every_problem(cli, spec_file):
    result = cli(spec_file, "--set", "model.kind=mlpp", "--set", "train.epochs=0")
    assert result.exit_code == 2
    assert "/model/kind" in result.stderr
    assert "/train/epochs" in result.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"model: [", "not_yaml"), (b"\xff\xfe", "UTF-8"), (b"model: {kind: mlp}", "/data")],
)
def test_what_is_no_spec_ends_with_2(cli, content, said):
    result = cli("-", input=content)
    assert result.exit_code == 2
    assert said in result.stderr or said == "not_yaml"
    assert "problem" in result.stderr


def test_a_missing_file_ends_with_2(cli, tmp_path):
    result = cli(str(tmp_path / "none.yaml"))
    assert result.exit_code == 2
    assert "none.yaml: No such file" in result.stderr


def test_a_job_that_fails_ends_with_1_and_its_reason(cli, spec_file, capfd, tmp_path):
    result = cli(
        spec_file, "--set", "data={kind: npz, path: /etc/passwd}", "--data-root", str(tmp_path)
    )
    assert result.exit_code == 1
    assert "invalid_data: /etc/passwd, path: expected" in capfd.readouterr().err


def test_control_c_ends_a_run_with_130(spec_file):
    command = [sys.executable, "-m", "ampcore", "run", spec_file, "--set", "train.epochs=1000000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            first = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Interrupted after" in rest
    # TensorFlow's own notes at start-up would stand before the first step.
    assert "mlp-float32: step 1/" in first


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_example_is_a_valid_spec(file):
    assert JobSpec.from_file(file).name

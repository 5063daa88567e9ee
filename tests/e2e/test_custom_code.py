"""Custom code, from a folder to predictions: submitted, trained, downloaded, and used."""

import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ampclient import Client
from ampspec.jobs import State
from tests.waiting import DEADLINE_S, wait_until

# The folders of the stack are closed to other users, so that its sandbox can only be bubblewrap.
pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.needs("bubblewrap")]

EXAMPLE = Path(__file__).parents[2] / "examples" / "bundle"
LINES = """
def build(options, signature):
    raise ValueError("the hidden size must be even")
"""


def test_custom_code_is_submitted_trained_and_used_on_raw_data(
    stack: Any, terminal: Any, tmp_path: Path
) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)

    terminal.python("make_data.py")
    terminal.ampctl("dataset", "push", "points.npz")
    planned = terminal.ampctl("submit", "job.yaml", "--code", "code", "--dry-run")
    assert "valid, sha256:" in planned
    job = terminal.ampctl("submit", "job.yaml", "--code", "code").strip()
    terminal.ampctl("watch", job)
    terminal.ampctl("download", job, "--output", "out")
    shown = terminal.python("predict.py", "out/attempt-1")
    done = stack.client.jobs.get(job)
    [right] = map(float, re.findall(r"\d\.\d+", shown))
    assert right == pytest.approx(done.metrics["val_accuracy"], abs=0.02)
    assert done.spec["model"]["bundle"] in planned
    longer = done.extend(epochs=1).wait(DEADLINE_S)
    assert longer.state == State.SUCCEEDED, longer.message


def test_the_message_of_a_failed_job_names_the_line_of_the_code(stack: Any, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(LINES)
    client: Client = stack.client
    spec = {"model": {"kind": "bundle"}, "data": {"kind": "digits"}}
    job = client.jobs.submit(spec, code=tmp_path).wait(DEADLINE_S)
    assert (job.state, job.reason) == (State.FAILED, "code_failed")
    assert "net.py:3 in build: ValueError: the hidden size must be even" in job.message
    assert job.attempt == 1
    logs = list(job.logs())
    assert {entry.attempt for entry in logs} == {1}
    logged = "".join(entry.text for entry in logs)
    assert "Traceback (most recent call last)" in logged
    assert 'raise ValueError("the hidden size must be even")' in logged


PROFILED = """
import keras

def build(options, signature):
    inputs = keras.Input(signature.input.shape)
    hidden = keras.layers.Dense(32, name="own_layer")(keras.layers.Flatten()(inputs))
    return keras.Model(inputs, keras.layers.Dense(signature.target.size)(hidden))
"""


def test_a_running_job_of_custom_code_is_profiled_in_its_sandbox(
    stack: Any, tmp_path: Path
) -> None:
    """The request reaches the sandbox, and the report and the trace leave it."""
    (tmp_path / "net.py").write_text(PROFILED)
    spec = {
        "model": {"kind": "bundle"},
        "data": {"kind": "digits", "batch_size": 64},
        "train": {"steps": 10**7, "checkpoint_every_s": None},
        "runtime": {"engine": "graph"},
    }
    job = stack.client.jobs.submit(spec, code=tmp_path)
    wait_until(lambda: job.refresh().step > 0, "the job trains")
    job.profile(steps=3)
    said = partial(job.events, type="state")
    report = wait_until(job.profile_report, "the report is stored", show=lambda: [*said()])
    [event] = job.events(type="profile")
    stopped = job.cancel().wait(DEADLINE_S)
    assert stopped.state == State.CANCELLED
    assert (event.data["steps"], report["steps"]) == (3, 3)
    assert any("own_layer" in row["layer"] for row in report["layers"])
    stored = {artifact.path.rpartition("/")[2] for artifact in job.artifacts()}
    assert {"report.json", "trace.json.gz"} <= stored

"""End to end: a spec submitted over HTTP trains, and every step is returned exactly once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ampclient import Client, InvalidSpec, Unauthorized
from ampspec.jobs import State
from ampspec.telemetry import StepBlock
from ampspec.telemetry.process_usage import CPU, MEMORY
from ampspec.telemetry.steps.codec import decode
from tests.folders import paths_in
from tests.processes import has_ended
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("stack")

TOO_HIGH = 2.0**24
SPEC: dict[str, Any] = {
    "model": {"kind": "cnn", "filters": [8, 16], "dense": [32]},
    "data": {"kind": "digits", "batch_size": 64},
    "precision": {"policy": "mixed_float16"},
    "loss_scale": {"mode": "dynamic", "initial": TOO_HIGH, "growth_interval": 20},
    "train": {"epochs": 3, "seed": 7},
    # A fixed engine, since results are compared bit by bit.
    "runtime": {"engine": "graph"},
}
TIME_COLUMNS = ("step_time_s",)

RUN_SCRIPT = """
import sys
from ampcore import JobSpec, StepBlock, Trainer
from ampspec.telemetry.steps.codec import encode

blocks = []
result = Trainer(JobSpec.from_file(sys.argv[1])).run(on_block=blocks.append)
open(sys.argv[2], "wb").write(encode(StepBlock.concat(blocks)))
print(result.weights_digest)
"""


@pytest.fixture(scope="module")
def trained(stack: Any) -> Any:
    return stack.client.jobs.submit(SPEC).wait(timeout_s=DEADLINE_S)


@pytest.fixture(scope="module")
def local_run(
    python_commands: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[StepBlock, str]:
    """The steps and weights digest of the same job, trained without a server."""
    folder = tmp_path_factory.mktemp("record")
    (folder / "job.json").write_text(json.dumps(SPEC))
    arguments = [str(folder / "job.json"), str(folder / "steps")]
    command = [str(python_commands / "python"), "-c", RUN_SCRIPT, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return decode((folder / "steps").read_bytes()), done.stdout.split()[-1]


@pytest.mark.quick
def test_every_step_is_stored_once_as_the_trainer_recorded_it(
    trained: Any, local_run: tuple[StepBlock, str]
) -> None:
    record, weights_digest = local_run
    steps = trained.steps()
    assert trained.state == State.SUCCEEDED, trained.message
    assert steps["step"].tolist() == list(range(trained.total_steps))
    untimed = [name for name in record.names if name not in TIME_COLUMNS]
    assert set(steps.names) - {CPU, MEMORY} == set(record.names)
    assert steps.select(untimed) == record.select(untimed)
    assert trained.summary.weights_digest == weights_digest


@pytest.mark.quick
def test_a_loss_scale_that_is_too_high_skips_steps_and_is_reduced(trained: Any) -> None:
    steps = trained.steps()
    skipped, scale = steps["skipped"], steps["loss_scale"]
    assert scale[0] == TOO_HIGH
    assert skipped.sum() >= 1
    assert trained.summary.skipped == skipped.sum()
    first = int(np.argmax(skipped))
    assert scale[first + 1] == scale[first] / 2
    overflows = [event for event in trained.events() if event.type == "overflow"]
    assert [event.step for event in overflows] == np.flatnonzero(skipped).tolist()


@pytest.mark.quick
def test_events_record_every_state_in_order(trained: Any) -> None:
    events = trained.events()
    states = [event.data["state"] for event in events if event.type == "state"]
    assert states == ["queued", "starting", "running", "succeeded"]
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert {"started", "evaluation", "model_saved"} <= {event.type for event in events}


def test_the_model_downloads_unchanged(
    stack: Any, trained: Any, tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    [model] = [file for file in trained.artifacts() if file.kind == "model"]
    assert model.path == "attempt-1/model.keras"
    [copy] = trained.download(model.path, to=tmp_path)
    stored = stack.data / "artifacts" / trained.id / model.path
    assert copy.read_bytes() == stored.read_bytes()
    wait_until(lambda: not paths_in(stack.data / "scratch", "*.keras"), "the files are removed")


def test_steps_can_be_read_in_pages(trained: Any) -> None:
    part = trained.steps(start=5, end=9, columns=["loss"])
    assert part["step"].tolist() == [5, 6, 7, 8]
    assert part.names == ("loss",)


def test_following_a_job_gives_each_step_once(stack: Any) -> None:
    job = stack.client.jobs.submit({**SPEC, "train": {"epochs": 2}})
    seen = [int(step) for block in job.follow_steps(poll_s=0.05) for step in block["step"]]
    assert seen == list(range(job.refresh().total_steps))


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_the_other_policies_train_without_skipped_steps(stack: Any, policy: str) -> None:
    spec = {"model": {"kind": "mlp"}, "data": SPEC["data"], "precision": {"policy": policy}}
    job = stack.client.jobs.submit({**spec, "train": {"epochs": 15}}).wait(timeout_s=DEADLINE_S)
    assert job.state == State.SUCCEEDED
    assert job.summary.skipped == 0
    assert job.summary.val_accuracy > 0.85
    assert set(job.steps()["loss_scale"].tolist()) == {1.0}


def test_the_command_line_submits_and_watches(stack: Any, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps({**SPEC, "name": "by-hand"}))
    command = [str(Path(sys.executable).with_name("ampctl")), "submit", str(tmp_path / "job.yaml")]
    environment = {**os.environ, "AMPCORE_CONNECTION": str(stack.data / "connection.json")}
    done = subprocess.run(
        [*command, "--watch", "--set", "train.epochs=1"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "succeeded" in done.stdout + done.stderr


def test_a_job_trains_on_an_uploaded_dataset_and_keeps_its_version(
    stack: Any, tmp_path: Path
) -> None:
    # Not `quads`: another test uploads that one, as the README says, to the same server.
    file = tmp_path / "checkers.npz"
    generator = np.random.default_rng(0)
    x, y = generator.random((64, 8, 8, 1), np.float32), np.arange(64) % 2
    np.savez(file, x_train=x, y_train=y)
    version = stack.client.datasets.upload(file)
    data = {"kind": "npz", "dataset": "checkers", "batch_size": 16}
    spec = {"model": {"kind": "mlp", "hidden": [8]}, "data": data, "train": {"epochs": 1}}
    job = stack.client.jobs.submit(spec)
    assert job.spec["data"]["dataset"] == version.reference == "checkers@1"
    ended = job.wait(timeout_s=DEADLINE_S)
    assert (ended.state, ended.step) == (State.SUCCEEDED, 4), ended.message
    stack.client.datasets.delete("checkers@1")
    with pytest.raises(InvalidSpec, match="/data/dataset"):
        job.clone()


def test_a_request_with_a_wrong_token_is_refused(stack: Any) -> None:
    with Client(stack.client.url, "amp_guessed") as other_client, pytest.raises(Unauthorized):
        list(other_client.jobs.list())


def test_an_invalid_spec_lists_every_error(stack: Any) -> None:
    spec = {**SPEC, "modle": 1, "train": {"epochs": "three"}}
    with pytest.raises(InvalidSpec) as caught:
        stack.client.jobs.submit(spec)
    assert {problem.pointer for problem in caught.value.problems} == {"/modle", "/train/epochs"}


NO_TEST: dict[str, Any] = {"x_test": None, "y_test": None}
"""The examples for validation have another dtype."""


class TestBadData:
    def test_a_missing_file_is_refused(self, stack: Any) -> None:
        spec = {"model": {"kind": "mlp"}, "data": {"kind": "npz", "path": "no-such.npz"}}
        with pytest.raises(InvalidSpec) as caught:
            stack.client.jobs.submit(spec)
        assert [problem.pointer for problem in caught.value.problems] == ["/data/path"]

    @pytest.mark.parametrize(
        ("name", "change", "expected"),
        [
            ("nan", {"x_train": np.full((64, 8, 8), np.nan, np.float32), **NO_TEST}, "column x"),
            ("labels", {"y_train": np.full(64, -1)}, "y: expected the classes of the training"),
            (
                "batch",
                {"x_train": np.zeros((4, 8, 8)), "y_train": np.array([0, 1, 2, 9]), **NO_TEST},
                "batch_size",
            ),
        ],
    )
    def test_invalid_data_fails_the_job_with_a_message(
        self, stack: Any, name: str, change: dict[str, Any], expected: str
    ) -> None:
        arrays = {
            "x_train": np.zeros((64, 8, 8), np.uint8),
            "y_train": np.arange(64) % 10,
            "x_test": np.zeros((16, 8, 8), np.uint8),
            "y_test": np.arange(16) % 10,
        }
        datasets = stack.data / "datasets"
        datasets.mkdir(exist_ok=True)
        given = {key: value for key, value in {**arrays, **change}.items() if value is not None}
        np.savez(datasets / f"{name}.npz", **given)
        data = {"kind": "npz", "path": f"{name}.npz", "batch_size": 16}
        job = stack.client.jobs.submit({"model": {"kind": "mlp"}, "data": data})
        job = job.wait(timeout_s=DEADLINE_S)
        assert (job.state, job.reason) == (State.FAILED, "invalid_data")
        assert expected in job.message


class TestJobEnd:
    LONG: dict[str, Any] = {  # noqa: RUF012 - read only
        "model": {"kind": "mlp"},
        "data": {"kind": "synthetic", "shape": [64], "examples": 2000},
        "train": {"steps": 100_000_000},
    }

    @pytest.fixture
    def running(self, stack: Any, wait_until: Callable[..., None]) -> Any:
        job = stack.client.jobs.submit(self.LONG)
        wait_until(lambda: job.refresh().step > 0)
        return job

    def test_a_cancelled_jobs_process_has_ended(self, stack: Any, running: Any) -> None:
        trainer = stack.trainer()
        assert running.cancel().state == State.STOPPING
        job = running.wait(timeout_s=DEADLINE_S)
        assert (job.state, job.reason) == (State.CANCELLED, "user_request")
        assert has_ended(trainer)
        assert len(job.steps()) == job.step

    def test_a_killed_trainer_fails_a_job_with_one_attempt(
        self, stack: Any, wait_until: Callable[..., None]
    ) -> None:
        job = stack.client.jobs.submit({**self.LONG, "runtime": {"max_attempts": 1}})
        wait_until(lambda: job.refresh().step > 0)
        stack.trainer().kill()
        job = job.wait(timeout_s=DEADLINE_S)
        assert (job.state, job.reason) == (State.FAILED, "process_killed")
        assert len(job.steps()) == job.step

    def test_a_queued_job_is_cancelled_at_once(self, stack: Any, running: Any) -> None:
        waiting = stack.client.jobs.submit(self.LONG)
        assert waiting.cancel().state == State.CANCELLED
        running.cancel()
        assert running.wait(timeout_s=DEADLINE_S).state == State.CANCELLED
        assert waiting.refresh().attempt == 0

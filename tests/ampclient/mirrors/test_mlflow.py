"""Mirrors to a real server of MLflow, read back through its REST API."""

import os
import subprocess
import sys

import httpx
import pytest

from ampclient.imports.mlflow import mlflow_runs
from tests import needs
from tests.processes import free_port
from tests.waiting import DEADLINE_S, wait_until

pytestmark = [pytest.mark.needs("mlflow"), pytest.mark.slow]

PROGRAM = """
import sys
import ampclient
uri = sys.argv[1]
client = ampclient.Client()
mirror = ampclient.MlflowMirror(uri, "digits")
config = {"rate": 0.1, "a key of ours!": "x" * 7000}
with client.runs.track("live", labels={"team": "vision"}, config=config, mirror=mirror) as run:
    run.watch(usage_every_s=None)
    for step in range(300):
        loss = {3: float("nan"), 4: float("inf")}.get(step, 1.0 / (step + 1))
        run.log(step, loss=loss, loss_scale=512.0, **{"a/b.c": step})
    run.event("evaluation", {"epoch": 0, "val_loss": 0.5})
failed = ampclient.MlflowMirror(uri, "digits")
try:
    with client.runs.track("killed", mirror=failed) as run2:
        run2.log(0, loss=1.0)
        raise KeyboardInterrupt
except KeyboardInterrupt:
    pass
stored = client.runs.mirror(run.id, ampclient.MlflowMirror(uri, "stored"))
print(run.id, mirror.run_id, stored.steps)
"""


@pytest.fixture
def mlflow(tmp_path):
    """The address of a server of MLflow."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    folders = [needs.packages_of_mirrors(), *sys.path]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{tmp_path / 'm.db'}"]
    command += ["--default-artifact-root", str(tmp_path / "files"), "--workers", "1"]
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as server:

        def answers():
            try:
                return httpx.get(f"{url}/health", timeout=DEADLINE_S).is_success
            except httpx.TransportError:
                return False

        try:
            wait_until(answers, "MLflow responds")
            yield url
        finally:
            os.killpg(server.pid, 15)


def test_mlflow_has_what_was_logged_and_what_is_stored(mlflow, run_program):
    output, _ = run_program(PROGRAM, mlflow)
    run_id, mlflow_id, steps = output.splitlines()[-1].split()
    assert steps == "300"
    live, killed = mlflow_runs(mlflow, "digits")
    [stored] = mlflow_runs(mlflow, "stored")
    assert (live.name, live.state, live.origin) == ("live", "succeeded", f"mlflow {mlflow_id}")
    assert (killed.name, killed.state) == ("killed", "cancelled")
    assert live.labels["team"] == "vision"
    assert live.labels["ampcore.run_id"] == run_id
    assert "pictures" in live.labels["ampcore.not_mirrored"]
    assert (live.config["rate"], live.config["a key of ours_"]) == ("0.1", "x" * 6000)
    for run in (live, stored):
        losses = {point.step: point.value for point in run.scalars["loss"]}
        assert len(run.scalars["loss"]) == len(losses) == 300
        assert losses[3] != losses[3]
        assert losses[4] > 1e300
        assert losses[9] == pytest.approx(0.1)
        assert {point.value for point in run.scalars["loss_scale"]} == {512.0}
        assert [point.step for point in run.scalars["a/b.c"]] == list(range(300))
        assert [(point.step, point.value) for point in run.scalars["val_loss"]] == [(299, 0.5)]
        times = [point.time_s for point in run.scalars["loss"]]
        assert times == sorted(times)


def test_a_folder_is_a_target_too(run_program, tmp_path):
    output, errors = run_program(
        PROGRAM.partition("failed =")[0] + "print(mirror.run_id)\n", (tmp_path / "runs").as_uri()
    )
    assert "is not complete" not in errors
    [losses] = (tmp_path / "runs").glob(f"*/{output.split()[-1]}/metrics/loss")
    assert len(losses.read_text().splitlines()) == 300


def test_a_server_of_mlflow_that_is_away_is_said_and_costs_nothing(run_program):
    output, errors = run_program(
        PROGRAM.partition("failed =")[0] + "print(run.id)\n", "http://127.0.0.1:1"
    )
    assert output.splitlines()[-1].isalnum()
    assert errors.count("is not complete: it has stopped") == 1

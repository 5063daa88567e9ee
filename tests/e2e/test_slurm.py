"""`ampserver up` on a machine with Slurm: a job trains in an allocation, with TensorFlow."""

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from ampclient import Client
from infra.parent_death import die_with_parent
from tests.slurm import slurm_cluster
from tests.waiting import DEADLINE_S, wait_until

SPEC = {
    "model": {"kind": "mlp", "hidden": [8]},
    "data": {"kind": "digits"},
    "train": {"steps": 20},
    "precision": {"policy": "mixed_float16"},
}


@pytest.mark.needs("slurm")
def test_up_gives_the_jobs_of_a_queue_to_slurm(tmp_path):
    """One job with a rank, and one with a rank on each of two nodes."""
    queue = {"partition": "main", "warning_s": 30}
    settings = {
        "command": [sys.executable, "-P", "-m", "server"],
        "environment": ["PYTHONPATH"],
        "output": str(tmp_path / "%x.log"),
        "poll_s": 0.5,
        "queues": {"batch": queue},
    }
    config = tmp_path / "slurm.yaml"
    config.write_text(yaml.safe_dump(settings))
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-"))
        slurm = stack.enter_context(slurm_cluster(Path(folder)))
        log = stack.enter_context((tmp_path / "up.log").open("wb"))
        environ = {
            **{name: value for name, value in os.environ.items() if "AMPCORE" not in name},
            **slurm.environ,
            "AMPCORE_SCHEDULER": "slurm",
            "AMPCORE_SCHEDULER_CONFIG": config.name,
        }
        data = tmp_path / "data"
        up = subprocess.Popen(
            [sys.executable, "-P", "-m", "server", "up", "--data", str(data), "--port", "0"],
            env=environ, cwd=tmp_path, stdout=log, stderr=log,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it calls prctl
        )  # fmt: skip
        try:
            train_two_jobs(data)
        finally:
            up.terminate()
            up.wait(DEADLINE_S)
        assert up.returncode == 0


def train_two_jobs(data):
    """Submit both jobs, and look at what became of them."""
    wait_until((data / "connection.json").exists, "the server is ready")
    with Client.from_file(data / "connection.json") as client:
        alone = client.jobs.submit({**SPEC, "runtime": {"queue": "batch"}})
        together = client.jobs.submit({**SPEC, "runtime": {"queue": "batch", "workers": 2}})
        for job in (alone, together):
            job.wait(timeout_s=DEADLINE_S)
            assert job.refresh().state == "succeeded", (job.message, job.events())
            wait_until(lambda job=job: job.allocations()[-1].state == "COMPLETED", "it is over")
        assert [row.nodes in ("n1", "n2") for row in alone.allocations()] == [True]
        assert [row.nodes for row in together.allocations()] == ["n[1-2]"]

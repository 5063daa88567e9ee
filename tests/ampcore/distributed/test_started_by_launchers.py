"""Programs and jobs that Open MPI's mpiexec and a real Slurm of two nodes start."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.slurm import slurm_cluster
from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[3]
LAUNCH = [sys.executable, "-m", "ampcore", "launch", "--processes", "2"]
MPIEXEC = ["mpiexec.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
SRUN = ["srun", "-N2", "-n2"]
JOB = """
model: {kind: mlp, hidden: [8]}
data: {kind: digits}
train: {steps: 12}
precision: {policy: mixed_float16}
"""
FAILING = """
import sys
import ampcore.distributed
communicator = ampcore.distributed.connect_from_environment()
if communicator.rank == 1:
    raise SystemExit("this rank has had enough")
communicator.barrier()
"""
DIFFERENT = ("examples_per_s", "train_s", "peak_memory_bytes", "ranks", "ranges")
"""What two equal runs report differently."""

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("launchers")]


@pytest.fixture(scope="module")
def slurm():
    """The two nodes."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, slurm_cluster(Path(folder)) as one:
        yield one


@pytest.fixture
def start(request, tmp_path):
    """Runs a command, with `srun` on the cluster; returns what has ended."""

    def run(*command):
        environ = dict(os.environ)
        if command[0] == "srun":
            environ |= request.getfixturevalue("slurm").environ
        return subprocess.run(
            [*map(str, command)], env=environ, cwd=tmp_path, capture_output=True, text=True,
            timeout=DEADLINE_S, check=False,
        )  # fmt: skip

    return run


def summary_of(done):
    """The only line that a program prints: rank 0's."""
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    return json.loads(line)


@pytest.mark.needs("mpiexec", "slurm")
@pytest.mark.parametrize("example", ["amp_tf2.py", "amp_tf1.py"])
def test_a_published_loop_computes_the_same_losses_however_it_is_started(start, example):
    program = [ROOT / "examples" / "sok" / example, "--steps", 4]
    launched = summary_of(start(*LAUNCH, *program))
    assert launched["ranks"] == 2
    for launcher in (MPIEXEC, SRUN):
        assert summary_of(start(*launcher, sys.executable, *program)) == launched


@pytest.mark.needs("mpiexec", "slurm")
def test_a_job_file_trains_the_same_weights_however_it_is_started(start, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    launched = summary_of(start(*LAUNCH, job, "--json"))
    assert launched["global_batch_size"] == 2 * 128
    for launcher in (MPIEXEC, SRUN):
        summary = summary_of(
            start(*launcher, sys.executable, "-P", "-m", "ampcore", "run", job, "--json")
        )
        for name in DIFFERENT:
            launched.pop(name, None)
            summary.pop(name)
        assert summary == launched


@pytest.mark.needs("slurm")
def test_one_rank_that_fails_ends_the_others(start, tmp_path):
    """Without a launcher that kills them: srun lets the other tasks run."""
    program = tmp_path / "failing.py"
    program.write_text(FAILING)
    done = start(*SRUN, sys.executable, program)
    assert done.returncode != 0
    assert "rank 1: this rank has had enough" in done.stderr
    assert "Rank 1" in done.stderr, "rank 0 says who was lost"


@pytest.mark.needs("mpiexec")
def test_launch_itself_is_not_started_several_times(start, tmp_path):
    done = start(*MPIEXEC, *LAUNCH, tmp_path / "job.yaml")
    assert done.returncode == 2
    assert "Open MPI has started this command 2 times (OMPI_COMM_WORLD_SIZE=2)" in done.stderr

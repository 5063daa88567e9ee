"""Programs and jobs that Open MPI's mpiexec and a real Slurm of two nodes start."""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from infra.parent_death import die_with_parent
from tests.processes import free_ports
from tests.slurm import slurm_cluster
from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[3]
LAUNCH = [sys.executable, "-m", "ampcore", "launch", "--processes", "2"]
MPIEXEC = ["mpiexec.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
SRUN = ["srun", "-N2", "-n2"]
TORCHRUN, TF_CONFIG = ["torchrun"], ["TF_CONFIG"]
"""Two processes with the variables of torchrun, or with TF_CONFIG, started by hand."""
JOB = """
model: {kind: mlp, hidden: [8]}
data: {kind: digits}
train: {steps: 12}
precision: {policy: mixed_float16}
"""
TRAINER = """
import json
import ampcore.distributed
from ampcore import JobSpec, Trainer
communicator = ampcore.distributed.connect_from_environment()
spec = {"model": {"kind": "mlp", "hidden": [8]}, "data": {"kind": "digits"},
        "train": {"steps": 12}, "precision": {"policy": "mixed_float16"},
        "runtime": {"device": "cpu", "devices": 2}}
result = Trainer(JobSpec.parse(spec)).run()
if communicator.rank == 0:
    print(json.dumps({"ranks": communicator.size, "weights": result.weights_digest}))
"""
FROM_KERAS = """
import json
import ampcore.distributed
communicator = ampcore.distributed.connect_from_environment()
import keras
import numpy as np
from ampcore import Trainer
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
data = {"x": x, "y": x[:, :1], "loss": "mse", "batch_size": 8}
trainer = Trainer.from_keras(model, **data, policy="mixed_float16", verbose=0)
result = trainer.run()
if communicator.rank == 0:
    print(json.dumps({"ranks": communicator.size, "weights": result.weights_digest}))
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
        if [command[0]] in (TORCHRUN, TF_CONFIG):
            return by_hand(command[0], [*map(str, command[1:])], tmp_path)
        if command[0] == "srun":
            environ |= request.getfixturevalue("slurm").environ
        return subprocess.run(
            [*map(str, command)], env=environ, cwd=tmp_path, capture_output=True, text=True,
            timeout=DEADLINE_S, check=False,
        )  # fmt: skip

    return run


def by_hand(kind, command, folder):
    """Two processes that variables tell their ranks; returns that of rank 0, which has ended."""
    ports = free_ports(2)
    tasks = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    variables_of = {
        "torchrun": lambda rank: {
            **{"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)},
            **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0])},
        },
        "TF_CONFIG": lambda rank: {
            "TF_CONFIG": json.dumps({"cluster": tasks, "task": {"type": "worker", "index": rank}})
        },
    }[kind]
    with ExitStack() as stack:
        ranks = [
            stack.enter_context(
                subprocess.Popen(
                    command, env={**os.environ, **variables_of(rank)}, cwd=folder,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    preexec_fn=die_with_parent,  # noqa: PLW1509 - it calls prctl
                )
            )
            for rank in (1, 0)
        ]  # fmt: skip
        for rank in ranks:
            stack.callback(rank.kill)
        with ThreadPoolExecutor() as pool:  # both pipes are read
            outputs = list(pool.map(lambda rank: rank.communicate(timeout=DEADLINE_S), ranks))
    assert ranks[0].returncode == 0, outputs[0]
    return subprocess.CompletedProcess(command, ranks[1].returncode, *outputs[1])


def summary_of(done):
    """The only line that a program prints: rank 0's."""
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    return json.loads(line)


@pytest.mark.needs("mpiexec", "slurm")
@pytest.mark.parametrize(
    ("example", "launchers"),
    [("amp_tf2.py", [MPIEXEC, TORCHRUN, TF_CONFIG]), ("amp_tf1.py", [SRUN])],
)
def test_a_published_loop_computes_the_same_losses_however_it_is_started(start, example, launchers):
    program = [ROOT / "examples" / "sok" / example, "--steps", 4]
    launched = summary_of(start(*LAUNCH, *program))
    assert launched["ranks"] == 2
    for launcher in launchers:
        assert summary_of(start(*launcher, sys.executable, *program)) == launched


@pytest.mark.needs("mpiexec", "slurm")
@pytest.mark.parametrize(
    ("text", "launchers"),
    [
        pytest.param(TRAINER, [MPIEXEC], id="spec"),
        pytest.param(FROM_KERAS, [SRUN], id="from_keras"),
    ],
)
def test_a_program_with_a_trainer_computes_the_same_however_it_is_started(
    start, tmp_path, text, launchers
):
    program = tmp_path / "program.py"
    program.write_text(text)
    launched = summary_of(start(*LAUNCH, program))
    assert launched["ranks"] == 2
    for launcher in launchers:
        assert summary_of(start(*launcher, sys.executable, program)) == launched


@pytest.mark.needs("slurm")
def test_a_job_file_trains_the_same_weights_however_it_is_started(start, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    launched = summary_of(start(*LAUNCH, job, "--json"))
    assert launched["global_batch_size"] == 2 * 128
    summary = summary_of(start(*SRUN, sys.executable, "-P", "-m", "ampcore", "run", job, "--json"))
    for name in DIFFERENT:
        launched.pop(name)
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

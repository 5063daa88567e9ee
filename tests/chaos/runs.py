"""The job of most of these tests, and what it must have become whatever happened to it."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ampclient import Artifact, Job
from ampcore.series import StepBlock
from ampcore.series.codec import decode
from ampcore.spec import JobSpec, State
from tests.chaos.waiting import wait_until

STEPS = 6_000
"""Some seconds of training: long enough to be disturbed in the middle."""
TIMED = "step_time_s"

SPEC: dict[str, Any] = {
    "name": "disturbed",
    "model": {"kind": "mlp", "hidden": [16]},
    "data": {"kind": "digits", "batch_size": 32},
    "precision": {"policy": "mixed_float16"},
    # Too high at first and growing often: scale and counters must survive every fault too.
    "loss_scale": {"mode": "dynamic", "initial": 2.0**24, "growth_interval": 50},
    "train": {
        "steps": STEPS,
        "seed": 3,
        "checkpoint_every_s": 0.4,
        "eval_every_epochs": 10_000_000,
    },
    # The same engine each time: what is compared are bits.
    "runtime": {"engine": "graph", "device": "cpu"},
}
ENDLESS: dict[str, Any] = {**SPEC, "name": "endless", "train": {**SPEC["train"], "steps": 2**40}}
TINY: dict[str, Any] = {**SPEC, "name": "tiny", "train": {"steps": 10, "checkpoint_every_s": None}}

TRAIN = """
import pathlib
import sys
from ampcore import JobSpec, StepBlock, Trainer
from ampcore.series.codec import encode

blocks = []
result = Trainer(JobSpec.from_file(sys.argv[1])).run(on_block=blocks.append)
steps, digest = map(pathlib.Path, sys.argv[2:])
steps.write_bytes(encode(StepBlock.concat(blocks)))
unfinished = digest.with_suffix(".unfinished")
unfinished.write_text(result.weights_digest)
unfinished.rename(digest)
"""


@dataclass(frozen=True)
class Record:
    """What a run was: the values of every step, and the weights that came out."""

    steps: StepBlock
    weights_digest: str


def train(folder: Path) -> Record:
    """What the trainer makes of SPEC in a process of its own, without any service.

    Where another process has begun it already in this folder, wait for that.
    """
    job, steps, digest = folder / "job.json", folder / "steps", folder / "weights_digest"
    try:
        folder.mkdir()
    except FileExistsError:
        wait_until(digest.exists, 180, "another process has trained it")
    else:
        job.write_text(JobSpec.parse(SPEC).model_dump_json())
        subprocess.run([sys.executable, "-c", TRAIN, job, steps, digest], check=True)
    return Record(decode(steps.read_bytes()), digest.read_text())


def assert_undisturbed(job: Job, record: Record) -> None:
    """That the job ended as if nothing had happened: each step once, bit for bit."""
    assert (job.state, job.message) == (State.SUCCEEDED, None)
    steps = job.steps()
    assert steps["step"].tolist() == list(range(STEPS))
    for name in sorted(set(record.steps.names) - {TIMED}):
        np.testing.assert_array_equal(steps[name], record.steps[name], err_msg=name)
    assert job.summary.weights_digest == record.weights_digest
    assert job.summary.skipped == int(record.steps["skipped"].sum())


def states(job: Job) -> list[str]:
    """Every state that the ledger says the job was in, in order."""
    return [event.data["state"] for event in job.events() if event.type == "state"]


def outcomes(job: Job) -> list[tuple[str | None, str | None]]:
    """How its attempts ended, and why, the first one first."""
    return [(attempt.outcome, attempt.reason) for attempt in job.attempts()]


def checkpoints(job: Job) -> list[Artifact]:
    """What it can go on from, the oldest one first."""
    return [artifact for artifact in job.artifacts() if artifact.kind == "checkpoint"]


def running(job: Job) -> bool:
    """Whether it trains right now and has told of a step."""
    job = job.refresh()
    assert not job.state.is_terminal, (job.state, job.message)
    return job.state is State.RUNNING and job.step > 0

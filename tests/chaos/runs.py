"""The job of most of these tests, and what it must have become whatever happened to it."""

import os
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
from tests.chaos.programs import formula
from tests.waiting import wait_until

PACE = float(os.environ.get("AMPCORE_TEST_PACE", "1"))
"""How fast the machine is to look: with 10 a job is over ten times sooner, with 0.1 a trainer
waits nine times as long as each block took. No test may know the difference."""
BLOCK = max(1, round(44 / max(PACE, 1)))
"""The steps that are told at one time; an epoch has 44. After each block a checkpoint is saved."""
STEPS = 12 * BLOCK
HELD_AT = 6 * BLOCK
"""Where trainers wait for the test."""
TIMED = "step_time_s"

SPEC: dict[str, Any] = {
    "name": "disturbed",
    "model": {"kind": "mlp", "hidden": [16]},
    "data": {"kind": "digits", "batch_size": 32},
    "precision": {"policy": "mixed_float16"},
    # Too high at first and growing often: scale and counters must survive every fault too.
    "loss_scale": {"mode": "dynamic", "initial": 2.0**24, "growth_interval": 20},
    "train": {
        "steps": STEPS,
        "seed": 3,
        "checkpoint_every_s": 1e-6,
        "eval_every_epochs": 10_000_000,
    },
    # The same engine each time: what is compared are bits.
    "runtime": {"engine": "graph", "device": "cpu"},
}
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
        wait_until(digest.exists, "another process has trained it")
    else:
        job.write_text(JobSpec.parse(SPEC).model_dump_json())
        subprocess.run([sys.executable, "-c", TRAIN, job, steps, digest], check=True)
    return Record(decode(steps.read_bytes()), digest.read_text())


def scripted() -> Record:
    """What the scripted trainer makes of SPEC."""
    return Record(formula.steps(0, STEPS), formula.trained(formula.UNTRAINED, 0, STEPS))


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


def saved_at(job: Job) -> list[int]:
    """After how many steps its recorded checkpoints were saved, the oldest one first."""
    return [artifact.step + 1 for artifact in checkpoints(job) if artifact.step is not None]


def reached(job: Job, step: int) -> bool:
    """Whether it trains right now and has told so many steps."""
    job = job.refresh()
    assert not job.state.is_terminal, (job.state, job.message)
    return job.state is State.RUNNING and job.step >= step


def running(job: Job) -> bool:
    """Whether it trains right now and has told of a step."""
    return reached(job, 1)

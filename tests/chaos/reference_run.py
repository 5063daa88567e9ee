"""The job of most chaos tests, and the undisturbed run whose result it must equal."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampclient import Artifact, Job
from ampspec.jobs import JobSpec, State
from ampspec.telemetry import StepBlock
from tests.chaos.programs import scripted_values

PACE = float(os.environ.get("AMPCORE_TEST_PACE", "1"))
"""The simulated speed of the machine: with 10 a job has a tenth of the steps, with 0.1 a trainer
waits nine times as long as each block took. Tests must pass at every pace."""
BLOCK_STEPS = max(1, round(44 / max(PACE, 1)))
"""Steps per block; an epoch has 44. A checkpoint is saved after each block."""
TOTAL_STEPS = 12 * BLOCK_STEPS
HOLD_STEP = 6 * BLOCK_STEPS
"""The step at which trainers wait for the test."""
TIME_COLUMN = "step_time_s"

SPEC: dict[str, Any] = {
    "name": "disturbed",
    "model": {"kind": "mlp", "hidden": [16]},
    "data": {"kind": "digits", "batch_size": 32},
    "precision": {"policy": "mixed_float16"},
    # Too high at first and growing often: the scale and its counters must survive every fault.
    "loss_scale": {"mode": "dynamic", "initial": 2.0**24, "growth_interval": 20},
    "train": {
        "steps": TOTAL_STEPS,
        "seed": 3,
        "checkpoint_every_s": 1e-6,
        "eval_every_epochs": 10_000_000,
    },
    # The same engine each time: results are compared bit by bit.
    "runtime": {"engine": "graph", "device": "cpu"},
}
TINY: dict[str, Any] = {**SPEC, "name": "tiny", "train": {"steps": 10, "checkpoint_every_s": None}}


@dataclass(frozen=True)
class RunResult:
    """The result of a run: the values of every step, and the digest of the final weights."""

    steps: StepBlock
    weights_digest: str


def train() -> RunResult:
    """Train SPEC in this process, without a service."""
    from ampcore.training import Trainer

    blocks: list[StepBlock] = []
    result = Trainer(JobSpec.parse(SPEC)).run(on_block=blocks.append)
    return RunResult(StepBlock.concat(blocks), result.weights_digest)


def scripted_reference() -> RunResult:
    """The result of the scripted trainer for SPEC."""
    return RunResult(
        scripted_values.steps(0, TOTAL_STEPS),
        scripted_values.weights_digest_after(scripted_values.INITIAL_DIGEST, 0, TOTAL_STEPS),
    )


def assert_equals_reference(job: Job, reference: RunResult) -> None:
    """Assert that the job equals the undisturbed run: each step once, bit for bit."""
    assert (job.state, job.message) == (State.SUCCEEDED, None)
    steps = job.steps()
    assert steps["step"].tolist() == list(range(TOTAL_STEPS))
    for name in sorted(set(reference.steps.names) - {TIME_COLUMN}):
        np.testing.assert_array_equal(steps[name], reference.steps[name], err_msg=name)
    assert job.summary.weights_digest == reference.weights_digest
    assert job.summary.skipped == int(reference.steps["skipped"].sum())


def states(job: Job) -> list[str]:
    """Every state in the job's events, in order."""
    return [event.data["state"] for event in job.events() if event.type == "state"]


def outcomes(job: Job) -> list[tuple[str | None, str | None]]:
    """Outcome and reason of its attempts, in order."""
    return [(attempt.outcome, attempt.reason) for attempt in job.attempts()]


def checkpoints(job: Job) -> list[Artifact]:
    """Its recorded checkpoints, the oldest first."""
    return [artifact for artifact in job.artifacts() if artifact.kind == "checkpoint"]


def saved_at(job: Job) -> list[int]:
    """The number of steps done before each recorded checkpoint, the oldest first."""
    return [artifact.step for artifact in checkpoints(job) if artifact.step is not None]


def reached(job: Job, step: int) -> bool:
    """Whether it is running and has stored this many steps."""
    job = job.refresh()
    assert not job.state.is_terminal, (job.state, job.message)
    return job.state is State.RUNNING and job.step >= step


def running(job: Job) -> bool:
    """Whether it is running and has stored a step."""
    return reached(job, 1)

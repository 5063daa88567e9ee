"""The values of the scripted trainer: computed from each step's number."""

import hashlib

import numpy as np

from ampspec.telemetry import StepBlock

INITIAL_DIGEST = ""
"""Represents the weights before the first step."""


def steps(first_step: int, count: int, loss: float | None = None) -> StepBlock:
    """The values of a range of steps; `loss` replaces the formula's loss."""
    number = np.arange(first_step, first_step + count)
    losses = 10 / (1 + number) if loss is None else np.full(count, loss)
    columns = {
        "loss": losses,
        "loss_scale": 2.0 ** (10 + number % 5),
        "skipped": number % 7 == 0,
        "grad_norm": np.sqrt(1 + number),
        "learning_rate": 0.1 / (1 + number),
        "step_time_s": np.full(count, 0.001),
        "examples": np.full(count, 32),
    }
    return StepBlock(first_step, columns)


def weights_digest_after(weights: str, first_step: int, count: int) -> str:
    """Represents the weights after these steps: a hash chain over the step numbers."""
    for step in range(first_step, first_step + count):
        weights = hashlib.sha256(f"{weights} {step}".encode()).hexdigest()
    return weights

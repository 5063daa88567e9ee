"""Compares the batch of a step with other batches, and with the start of the run.

All of it in the same way as the step itself (with its dropout), but in float32 or at a loss scale
at which the step is finite, so that neither the loss scale nor the precision takes part: what is
left is the data or the weights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.diagnostics.steps.replay import Replay
from ampcore.diagnostics.steps.step_values import grad_norm
from ampcore.models.task import Task

Tensor = Any

MAX_OTHERS: Final = 6
"""The maximum number of other batches that are computed."""
DIVERGED_RATIO: Final = 2.0
"""A loss of this many times that at the start of the run means that the training has diverged."""
DATA_RATIO: Final = 3.0
"""A batch whose loss or norm is this many times that of the other batches is unusual."""


class StepInputs(NamedTuple):
    """The examples of a step, and the seed of its noise."""

    batch: Batch
    seed: Tensor


class Measured(NamedTuple):
    """The loss (the sum of all networks) and the norm of all gradients of one batch."""

    loss: float
    grad_norm: float

    @property
    def is_finite(self) -> bool:
        """Whether both are finite."""
        return math.isfinite(self.loss) and math.isfinite(self.grad_norm)

    def to_json(self) -> dict[str, float]:
        """Both, by name."""
        return {"loss": self.loss, "grad_norm": self.grad_norm}


@dataclass(frozen=True)
class Probe:
    """What the weights before a step give for its batch and for other batches."""

    this_batch: Measured
    """The batch of the step."""
    other_batches: Sequence[Measured]
    """Other batches, with the same weights."""
    at_start: Measured | None = None
    """The first step of the run, whose weights were untrained; None if it is not known."""
    example_losses: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    """The loss of each example of the batch, outside of training."""

    @property
    def level(self) -> Measured | None:
        """The medians over the other batches; None without any. NaN counts as infinite."""
        if not self.other_batches:
            return None
        columns = np.nan_to_num(
            np.array(self.other_batches), nan=np.inf, posinf=np.inf, neginf=-np.inf
        )
        return Measured(*(float(median) for median in np.median(columns, axis=0)))

    @property
    def has_diverged(self) -> bool:
        """Whether these weights are far worse than untrained ones, on other batches too."""
        if self.at_start is None or not math.isfinite(self.at_start.loss):
            return False
        level = self.level or self.this_batch
        if not math.isfinite(level.loss):
            return True
        return 0 < self.at_start.loss * DIVERGED_RATIO < level.loss

    @property
    def has_not_learned(self) -> bool:
        """Whether these weights are no better than untrained ones, on other batches."""
        if self.at_start is None or (level := self.level) is None:
            return False
        return level.loss >= self.at_start.loss

    @property
    def is_unusual_batch(self) -> bool:
        """Whether this batch alone has a large or non-finite loss or gradient norm."""
        level = self.level
        if level is None or not level.is_finite:
            return False
        return not self.this_batch.is_finite or any(
            value > DATA_RATIO * abs(median)
            for value, median in zip(self.this_batch, level, strict=True)
        )

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "own": self.this_batch.to_json(),
            "others": self.level.to_json() if self.level is not None else None,
            "other_batches": len(self.other_batches),
            "at_start": self.at_start.to_json() if self.at_start is not None else None,
        }


def measure(replay: Replay, inputs: StepInputs, scales: Sequence[float] | None = None) -> Measured:
    """The loss and the gradient norm of a step's batch, as means over its micro-batches.

    Args:
        replay: Computes them.
        inputs: The batch.
        scales: The loss scale of each network; None: 1.
    """
    scales = list(scales or [1.0] * len(replay.loss_scales))
    losses, norms = [], []
    for _, replayed in replay.step(scales, inputs.batch, inputs.seed):
        losses.append(float(np.sum(replayed.losses)))
        norms.append(grad_norm(replay, replayed, scales))
    return Measured(float(np.mean(losses)), float(np.mean(norms)))


def example_losses(task: Task, batch: Batch) -> NDArray[np.float32]:
    """The loss of each example, outside of training."""
    losses: NDArray[np.float32] = (
        task.measure(task.weights(), task.non_trainable(), batch.map(tf.convert_to_tensor))["loss"]
        .numpy()
        .astype(np.float32)
    )
    return losses

"""Compares a step's batch with other batches, and the weights before it with untrained ones.

All of it in float32, in the same way as the step itself (with its dropout), so that neither the
loss scale nor the precision takes part: what is left is the data or the weights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.diagnostics.replay import Replay
from ampcore.diagnostics.step_values import grad_norm
from ampcore.models.task import Task

Tensor = Any

MAX_OTHERS: Final = 6
"""The maximum number of other batches that are computed."""
DIVERGED_RATIO: Final = 4.0
"""A loss of this many times that of untrained weights means that the training has diverged."""
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
    """What float32 computes with the weights before a step."""

    own: Measured
    """The batch of the step."""
    others: Sequence[Measured]
    """Other batches, with the same weights."""
    untrained: Measured
    """The batch of the step, with the weights before training."""
    example_losses: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    """The loss of each example of the batch, outside of training."""

    @property
    def level(self) -> Measured | None:
        """The medians over the other batches; None without any."""
        if not self.others:
            return None
        return Measured(*(float(np.median(column)) for column in zip(*self.others, strict=True)))

    @property
    def has_diverged(self) -> bool:
        """Whether these weights are far worse than untrained ones, on other batches too."""
        level, untrained = self.level or self.own, self.untrained.loss
        if not math.isfinite(level.loss):
            return math.isfinite(untrained)
        return 0 < untrained * DIVERGED_RATIO < level.loss

    @property
    def is_unusual_batch(self) -> bool:
        """Whether this batch alone has a large or non-finite loss or gradient norm."""
        level = self.level
        if level is None or not level.is_finite:
            return False
        return not self.own.is_finite or any(
            own > DATA_RATIO * abs(other) for own, other in zip(self.own, level, strict=True)
        )

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "own": self.own.to_json(),
            "others": self.level.to_json() if self.level is not None else None,
            "other_batches": len(self.others),
            "untrained": self.untrained.to_json(),
        }


def measure(replay: Replay, inputs: StepInputs) -> Measured:
    """The loss and the gradient norm of a step's batch, as means over its micro-batches."""
    scales = [1.0] * len(replay.loss_scales)
    losses, norms = [], []
    for _, replayed in replay.step(scales, inputs.batch, inputs.seed):
        losses.append(float(np.sum(replayed.losses)))
        norms.append(grad_norm(replay, replayed, scales))
    return Measured(float(np.mean(losses)), float(np.mean(norms)))


def example_losses(task: Task, batch: Batch) -> NDArray[np.float32]:
    """The loss of each example, outside of training."""
    found: NDArray[np.float32] = (
        task.measure(task.weights(), task.non_trainable(), batch.map(tf.convert_to_tensor))["loss"]
        .numpy()
        .astype(np.float32)
    )
    return found

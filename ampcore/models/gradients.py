"""The losses of one batch and their gradients: nothing is assigned.

The order is that of Micikevicius et al. 2018: float32 weights → 16-bit compute → float32 loss
→ times the loss scale → gradients. Dividing by the scale is left to the caller.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ampcore.data import Batch
from ampcore.models.task import Held, Task
from ampcore.precision import LossScale, LossScaleState, only_overwrites, without_overwrites

Tensor = Any
States = tuple[LossScaleState, ...]
"""One state for each network of a task, in order."""


class Gradients(NamedTuple):
    """Per network: the unscaled loss, the scaled gradients, and what the held variables become.

    A gradient has the dtype of its variable; IndexedSlices for a table that was only looked up,
    None for a variable that the loss does not depend on. `overwrites` are the next values of
    those trainable variables that take what the tape calls their gradient (float8 scales and
    amax histories), None for all others; these have no gradient.
    """

    losses: list[Tensor]
    scaled: list[list[Any]]
    held: Held
    overwrites: list[list[Any]]


def scaled_gradients(  # noqa: PLR0917 - a pure function of all of these, called from two places
    task: Task,
    scales: Sequence[LossScale],
    states: States,
    held: Held,
    batch: Batch,
    seed: Tensor,
) -> Gradients:
    """Differentiate each network's scaled loss by that network's weights, as they now stand."""
    weights = task.weights()
    with tf.GradientTape(persistent=len(weights) > 1) as tape:
        losses, after = task.losses(weights, held, batch, seed)
        scaled = [
            scale.scale(state, loss)
            for scale, state, loss in zip(scales, states, losses, strict=True)
        ]
    found = [tape.gradient(loss, own) for loss, own in zip(scaled, weights, strict=True)]
    variables = [network.model.trainable_variables for network in task.networks]
    rows = list(zip(found, variables, strict=True))
    return Gradients(
        losses,
        [without_overwrites(*row) for row in rows],
        after,
        [only_overwrites(*row) for row in rows],
    )

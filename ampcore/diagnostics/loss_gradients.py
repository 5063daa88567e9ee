"""The losses of a task and their gradients, as the diagnostics trace them: nothing is assigned."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ampcore.data import Batch
from ampcore.models.seeds import micro_batch_seed
from ampcore.models.stateless_call import StateUpdates
from ampcore.models.task import NonTrainable, Task, Weights
from ampcore.precision import without_overwrites

Tensor = Any


class LossGradients(NamedTuple):
    """One forward and one backward pass; each list has an entry for each network.

    Attributes:
        losses: Float32 scalars, not scaled.
        state_updates: By the index of a state variable, its next value.
        variables: Of the (scaled) loss, the gradients by the trainable variables: dense, sparse, or
            None.
        outputs: Those by each of `outputs()`.
    """

    losses: Sequence[Tensor]
    state_updates: Sequence[StateUpdates]
    variables: list[list[Any]]
    outputs: list[list[Any]]


def loss_gradients(
    task: Task,
    non_trainable: NonTrainable,
    batch: Batch,
    seed: Tensor,
    *,
    outputs: Callable[[], Sequence[Tensor]] = list,
    scale_losses: Callable[[Sequence[Tensor]], Sequence[Tensor]] = list,
    replace_weights: Callable[[Weights], Weights] = list,
) -> LossGradients:
    """Differentiate the loss of each network.

    Args:
        task: The networks and their losses.
        non_trainable: The values of the state variables before the forward pass.
        batch: The examples of a micro-batch.
        seed: Int64 (2,): decides the noise that the task draws itself.
        outputs: Called after the forward pass: its tensors that the losses are differentiated by,
            such as those that `layer_outputs` has recorded.
        scale_losses: From the losses to those that are differentiated.
        replace_weights: From the weights to those that the forward pass uses; the gradients are
            those by the weights.
    """
    weights = [[tf.convert_to_tensor(value) for value in values] for values in task.weights()]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(weights)
        losses, state_updates = task.losses(replace_weights(weights), non_trainable, batch, seed)
        scaled_losses = scale_losses(losses)
    tensors = list(outputs())
    with task.applied_dtypes():
        gradients = [
            tape.gradient(loss, (values, tensors))
            for loss, values in zip(scaled_losses, weights, strict=True)
        ]
    variables = [
        without_overwrites(by_variables, network.model.trainable_variables)
        for (by_variables, _), network in zip(gradients, task.networks, strict=True)
    ]
    return LossGradients(
        losses, state_updates, variables, [by_outputs for _, by_outputs in gradients]
    )


def first_micro_batch(batch: Batch, seed: Tensor, accumulate: int) -> tuple[Batch, Tensor]:
    """The first of a step's micro-batches, and its seed."""
    size = batch.parts[0].shape[0] // accumulate
    return (
        batch.map(lambda rows: tf.convert_to_tensor(rows[:size])),
        micro_batch_seed(seed, 0, accumulate),
    )

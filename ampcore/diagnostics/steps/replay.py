"""Replays the gradients of a step without changing anything, and collects statistics of them.

A run halts after a step of interest; weights and non-trainable variables are then those of that
step, and so are its dropout masks.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.diagnostics.layer_outputs import LayerRef, layer_outputs
from ampcore.diagnostics.loss_gradients import loss_gradients
from ampcore.models.dropout_seeds import DropoutSeeds
from ampcore.models.seeds import MicroBatchShard
from ampcore.models.stateless_call import with_updates
from ampcore.models.task import NonTrainable, Task
from ampcore.precision import LossScale

Tensor = Any
TensorStats = NDArray[np.float64]
"""(…, 3): the number of infinite elements, of NaN, and the largest finite magnitude."""


class MicroBatch(NamedTuple):
    """One part of a step's batch, with the non-trainable values and the seed of its computation."""

    number: int
    first_row: int
    """The index of its first example in the batch of the step."""
    batch: Batch
    non_trainable: NonTrainable
    seed: Tensor


class ReplayResult(NamedTuple):
    """The result of replaying one micro-batch at one set of loss scales.

    `losses` are unscaled, one for each network; everything else is of the scaled losses.
    `variables` holds the statistics (variables, 3) of each network's gradients, 0 where there is
    no gradient. `forward` holds those of the layers' outputs (calls, 3), `backward` those of the
    gradients by these outputs (networks, calls, 3).
    """

    losses: NDArray[np.float32]
    variables: list[TensorStats]
    forward: TensorStats
    backward: TensorStats
    gradients: list[list[Any]]
    non_trainable: NonTrainable

    @property
    def finite(self) -> list[bool]:
        """For each network, whether all its gradients are finite."""
        return [not has_nonfinite(stats) for stats in self.variables]

    @property
    def finite_losses(self) -> bool:
        """Whether all losses are finite; an output of a layer may be infinite, as a mask is."""
        return bool(np.isfinite(self.losses).all())

    @property
    def finite_forward(self) -> bool:
        """Whether all losses and all outputs of layers are finite."""
        return self.finite_losses and not has_nonfinite(self.forward)


class Replay:
    """The losses and gradients of a task at any loss scale.

    One compiled function, traced when it is first called. `loss_scales` are those that the
    task is trained with, one for each network; `accumulate` is the number of micro-batches in a
    step, and `shard` which of all ranks' they are.
    """

    def __init__(
        self,
        task: Task,
        loss_scales: Sequence[LossScale],
        accumulate: int = 1,
        shard: MicroBatchShard | None = None,
    ) -> None:
        self.task, self.accumulate = task, accumulate
        self.shard = shard or MicroBatchShard(accumulate)
        self.loss_scales = tuple(loss_scales)
        self.calls: tuple[LayerRef, ...] = ()
        """The calls of layers, in order; known after the first replay."""
        self.loss_calls: frozenset[int] = frozenset()
        """The indices of `calls` whose value is no output but a loss of the layer."""
        self.dtypes: tuple[str, ...] = ()
        """The dtypes of their outputs."""
        self.function = tf.function(self._function, autograph=False)
        self._first_values = tf.function(DropoutSeeds(task, self.shard).before, autograph=False)

    def __call__(self, scales: Sequence[float], micro: MicroBatch) -> ReplayResult:
        """Replay a micro-batch at these loss scales, one for each network."""
        losses, variables, forward, backward, gradients, updates = self.function(
            tf.constant(scales, tf.float32), micro.non_trainable, micro.batch, micro.seed
        )
        return ReplayResult(
            losses.numpy(),
            [stats.numpy() for stats in variables],
            forward.numpy(),
            backward.numpy(),
            gradients,
            [with_updates(*network) for network in zip(micro.non_trainable, updates, strict=True)],
        )

    def step(
        self, scales: Sequence[float], batch: Batch, seed: Tensor
    ) -> Iterator[tuple[MicroBatch, ReplayResult]]:
        """Replay the micro-batches of a step, each with the non-trainable values of the last."""
        non_trainable, size = self.task.non_trainable(), batch.parts[0].shape[0] // self.accumulate
        for index in range(self.accumulate):
            first = index * size
            part = batch.map(
                lambda rows, start=first: tf.convert_to_tensor(rows[start : start + size])
            )
            values = tf.nest.map_structure(tf.convert_to_tensor, non_trainable)
            if index == 0 and self.shard.first:
                values = self._first_values(values, part, seed)
            micro = MicroBatch(index, first, part, values, self.shard.seed(seed, index))
            replayed = self(scales, micro)
            yield micro, replayed
            non_trainable = replayed.non_trainable

    def _function(
        self, scales: Tensor, non_trainable: NonTrainable, batch: Batch, seed: Tensor
    ) -> tuple[Any, ...]:
        def scale_losses(losses: Sequence[Tensor]) -> list[Tensor]:
            return [
                loss_scale.scale(loss_scale.init()._replace(scale=scale), loss)
                for loss_scale, scale, loss in zip(
                    self.loss_scales, tf.unstack(scales), losses, strict=True
                )
            ]

        with layer_outputs(self.task, losses=True) as outputs:
            gradients = loss_gradients(
                *(self.task, non_trainable, batch, seed),
                outputs=lambda: [output.tensor for output in outputs],
                scale_losses=scale_losses,
            )
        self.calls = tuple(output.layer_ref for output in outputs)
        self.loss_calls = frozenset(n for n, output in enumerate(outputs) if output.is_loss)
        self.dtypes = tuple(output.tensor.dtype.name for output in outputs)
        return (
            tf.stack(gradients.losses),
            [_tensor_stats(by_variables) for by_variables in gradients.variables],
            _tensor_stats([output.tensor for output in outputs]),
            tf.stack([_tensor_stats(by_outputs) for by_outputs in gradients.outputs]),
            gradients.variables,
            gradients.state_updates,
        )


def has_nonfinite(stats: TensorStats) -> bool:
    """Whether any counted element is infinite or NaN."""
    return bool(stats[..., :2].any())


def _tensor_stats(values: Sequence[Any]) -> Tensor:
    """The statistics (len(values), 3) of tensors and IndexedSlices; 0 for None."""
    return (
        tf.stack([_stats_of_tensor(value) for value in values])
        if values
        else tf.zeros((0, 3), tf.float64)
    )


def _stats_of_tensor(value: Any) -> Tensor:
    if value is None:
        return tf.zeros(3, tf.float64)
    values = value.values if isinstance(value, tf.IndexedSlices) else value
    values = tf.reshape(tf.cast(values, tf.float32), [-1])
    finite = tf.where(tf.math.is_finite(values), tf.abs(values), 0.0)
    # The 0 is for tensors without elements.
    largest = tf.reduce_max(tf.concat([finite, [0.0]], axis=0))
    counts = [tf.math.is_inf(values), tf.math.is_nan(values)]
    return tf.stack(
        [tf.reduce_sum(tf.cast(count, tf.float64)) for count in counts]
        + [tf.cast(largest, tf.float64)]
    )

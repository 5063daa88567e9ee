"""Computes the gradients of a step once more, and looks at them: nothing is changed.

A run on its way halts behind a step of interest; weights and held variables are then those of
that step, and so are its dropout masks.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.diagnose.layer_outputs import LayerPlace, layer_outputs
from ampcore.models.micro import micro_seed
from ampcore.models.task import Held, Task
from ampcore.precision import LossScale, without_overwrites

Tensor = Any
Figures = NDArray[np.float64]
"""(…, 3): how many elements are infinite, how many NaN, and the largest finite magnitude."""


class MicroBatch(NamedTuple):
    """One part of a step's batch, and what it was computed with."""

    number: int
    first_row: int
    """Where its examples begin in the batch of the step."""
    batch: Batch
    held: Held
    seed: Tensor


class Replayed(NamedTuple):
    """One micro-batch at one set of loss scales, computed again.

    `losses` are unscaled, one for each network; everything else belongs to the scaled losses.
    `variables` holds figures (variables, 3) of each network's gradients; one that there is none
    of has figures of 0. `forward` are those of the layers' outputs (calls, 3), `backward` those
    of the gradients by these outputs (networks, calls, 3).
    """

    losses: NDArray[np.float32]
    variables: list[Figures]
    forward: Figures
    backward: Figures
    gradients: list[list[Any]]
    held: Held

    @property
    def finite(self) -> list[bool]:
        """For each network, whether all its gradients are."""
        return [not has_bad(figures) for figures in self.variables]

    @property
    def finite_forward(self) -> bool:
        """Whether every layer's output and every loss is."""
        return bool(np.isfinite(self.losses).all()) and not has_bad(self.forward)


class Replay:
    """The losses and gradients of a task at any loss scale.

    One compiled function, traced when it is first called. `scales` are the kinds that the task
    is trained with, one for each network, and `accumulate` the micro-batches of a step.
    """

    def __init__(self, task: Task, scales: Sequence[LossScale], accumulate: int = 1) -> None:
        self.task, self.scales, self.accumulate = task, tuple(scales), accumulate
        self.calls: tuple[LayerPlace, ...] = ()
        """The layers' calls, in order; known after the first replay."""
        self.dtypes: tuple[str, ...] = ()
        """What each of these calls returned."""
        self.function = tf.function(self._function, autograph=False)

    def __call__(self, scales: Sequence[float], micro: MicroBatch) -> Replayed:
        """The micro-batch at these loss scales, one for each network."""
        losses, variables, forward, backward, gradients, held = self.function(
            tf.constant(scales, tf.float32), micro.held, micro.batch, micro.seed
        )
        return Replayed(
            losses.numpy(),
            [figures.numpy() for figures in variables],
            forward.numpy(),
            backward.numpy(),
            gradients,
            held,
        )

    def step(
        self, scales: Sequence[float], batch: Batch, seed: Tensor
    ) -> Iterator[tuple[MicroBatch, Replayed]]:
        """Every micro-batch of a step, each on the held values that the one before has left."""
        held, size = self.task.held(), batch.y.shape[0] // self.accumulate
        for index in range(self.accumulate):
            first = index * size
            part = Batch(*(tf.convert_to_tensor(rows[first : first + size]) for rows in batch))
            values = tf.nest.map_structure(tf.convert_to_tensor, held)
            micro = MicroBatch(index, first, part, values, micro_seed(seed, index, self.accumulate))
            replayed = self(scales, micro)
            yield micro, replayed
            held = replayed.held

    def _function(self, scales: Tensor, held: Held, batch: Batch, seed: Tensor) -> tuple[Any, ...]:
        weights = self.task.weights()
        with layer_outputs(self.task) as outputs, tf.GradientTape(persistent=True) as tape:
            losses, after = self.task.losses(weights, held, batch, seed)
            scaled = [
                kind.scale(kind.init()._replace(scale=scale), loss)
                for kind, scale, loss in zip(self.scales, tf.unstack(scales), losses, strict=True)
            ]
        self.calls = tuple(output.place for output in outputs)
        tensors = [output.tensor for output in outputs]
        self.dtypes = tuple(tensor.dtype.name for tensor in tensors)
        sources = [(own, tensors) for own in weights]
        found = [tape.gradient(*pair) for pair in zip(scaled, sources, strict=True)]
        gradients = [
            without_overwrites(own, network.model.trainable_variables)
            for (own, _), network in zip(found, self.task.networks, strict=True)
        ]
        return (
            tf.stack(losses),
            [_figures(own) for own in gradients],
            _figures(tensors),
            tf.stack([_figures(by_outputs) for _, by_outputs in found]),
            gradients,
            after,
        )


def has_bad(figures: Figures) -> bool:
    """Whether any element that was counted is infinite or NaN."""
    return bool(figures[..., :2].any())


def _figures(values: Sequence[Any]) -> Tensor:
    """Figures (len(values), 3) of tensors and IndexedSlices; None has figures of 0."""
    return (
        tf.stack([_of_one(value) for value in values]) if values else tf.zeros((0, 3), tf.float64)
    )


def _of_one(value: Any) -> Tensor:
    if value is None:
        return tf.zeros(3, tf.float64)
    values = value.values if isinstance(value, tf.IndexedSlices) else value
    values = tf.reshape(tf.cast(values, tf.float32), [-1])
    finite = tf.where(tf.math.is_finite(values), tf.abs(values), 0.0)
    # The 0 is for a tensor without elements.
    largest = tf.reduce_max(tf.concat([finite, [0.0]], axis=0))
    counts = [tf.math.is_inf(values), tf.math.is_nan(values)]
    return tf.stack(
        [tf.reduce_sum(tf.cast(count, tf.float64)) for count in counts]
        + [tf.cast(largest, tf.float64)]
    )

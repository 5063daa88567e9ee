"""Gradient accumulation: several micro-batches, one update."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ampcore.data import Batch
from ampcore.models.gradients import Gradients
from ampcore.models.micro import micro_seed
from ampcore.models.task import Held
from ampcore.precision import global_norm
from ampcore.train.cut import view

Tensor = Any
Micro = Callable[[Held, Batch, Tensor], Gradients]


def accumulated(
    micro: Micro, count: int, held: Held, batch: Batch, seed: Tensor
) -> tuple[Gradients, Tensor]:
    """The mean losses and gradients of `count` equal parts of `batch`, one after the other.

    Each part starts with the held values that the part before has left. Also returns how many
    parts had a gradient that is not finite, float32; with one part that is not counted. Sparse
    gradients stay sparse: their rows come one part after the other.
    """
    if count == 1:
        return micro(held, batch, seed), tf.constant(0.0)
    size = batch.y.shape[0] // count

    def part(index: Tensor, held: Held) -> Gradients:
        own = view(batch, index, size)
        return micro(held, own, micro_seed(seed, index))

    first = part(tf.constant(0), held)
    sums = _Sums(first, count)

    def body(index: Tensor, held: Held, bad: Tensor, carried: Any) -> tuple[Any, ...]:
        found = part(index, held)
        return index + 1, found.held, bad + _is_bad(found), sums.add(carried, index, found)

    # Variables that no part has changed are read here, since a loop carries tensors.
    begun = tf.nest.map_structure(tf.convert_to_tensor, first.held)
    _, after, bad, carried = tf.while_loop(
        lambda index, *_: index < count,
        body,
        (tf.constant(1), begun, _is_bad(first), sums.start(first)),
        maximum_iterations=count - 1,
    )
    losses, grads = sums.means(carried)
    # The same object says that nothing has changed, though it went through the loop.
    kept = [
        [old if new is old else last for old, new, last in zip(*rows, strict=True)]
        for rows in zip(held, first.held, after, strict=True)
    ]
    return Gradients(losses, grads, kept), bad


def _is_bad(found: Gradients) -> Tensor:
    norms = [global_norm(grads) for grads in found.scaled]
    return tf.cast(tf.logical_not(tf.math.is_finite(tf.add_n(norms))), tf.float32)


class _Sums:
    """What is added up over the parts; sparse gradients are collected in TensorArrays."""

    def __init__(self, first: Gradients, count: int) -> None:
        self._count = count
        self._flat = tf.nest.flatten(first.scaled, expand_composites=False)
        self._nested = first.scaled

    def start(self, first: Gradients) -> tuple[list[Tensor], list[Any]]:
        return first.losses, [self._opened(grad) for grad in self._flat if grad is not None]

    def add(
        self, carried: tuple[list[Tensor], list[Any]], index: Tensor, found: Gradients
    ) -> tuple[list[Tensor], list[Any]]:
        losses, sums = carried
        grads = [grad for grad in tf.nest.flatten(found.scaled) if grad is not None]
        return (
            [old + new for old, new in zip(losses, found.losses, strict=True)],
            [_added(old, index, grad) for old, grad in zip(sums, grads, strict=True)],
        )

    def means(self, carried: tuple[list[Tensor], list[Any]]) -> tuple[list[Tensor], Any]:
        losses, sums = carried
        rest = iter(sums)
        flat = [None if grad is None else self._mean(next(rest), grad) for grad in self._flat]
        return [loss / self._count for loss in losses], tf.nest.pack_sequence_as(self._nested, flat)

    def _opened(self, grad: Any) -> Any:
        if not isinstance(grad, tf.IndexedSlices):
            return grad
        parts = (grad.values, grad.indices)
        arrays = [
            tf.TensorArray(part.dtype, size=self._count, element_shape=part.shape) for part in parts
        ]
        return [array.write(0, part) for array, part in zip(arrays, parts, strict=True)]

    def _mean(self, total: Any, grad: Any) -> Any:
        if not isinstance(grad, tf.IndexedSlices):
            return total / self._count
        values, indices = (array.concat() for array in total)
        return tf.IndexedSlices(values / self._count, indices, grad.dense_shape)


def _added(total: Any, index: Tensor, grad: Any) -> Any:
    if not isinstance(grad, tf.IndexedSlices):
        return total + grad
    values, indices = total
    return [values.write(index, grad.values), indices.write(index, grad.indices)]

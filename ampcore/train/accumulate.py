"""Gradient accumulation: several micro-batches, one update."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ampcore.data import Batch
from ampcore.models.gradients import Gradients
from ampcore.models.micro import micro_seed
from ampcore.models.task import Held
from ampcore.precision import each_finite, global_norm
from ampcore.train.cut import view

Tensor = Any
Micro = Callable[[Held, Batch, Tensor], Gradients]


def accumulated(
    micro: Micro, count: int, held: Held, batch: Batch, seed: Tensor
) -> tuple[Gradients, Tensor]:
    """The mean losses and gradients of `count` equal parts of `batch`, one after the other.

    Each part starts with the held values that the part before has left. Also returns how many
    parts had a gradient that is not finite, float32; with one part that is not counted. Sparse
    gradients stay sparse: their rows come one part after the other. Of values that overwrite
    variables the largest counts, as in Keras.
    """
    if count == 1:
        return micro(held, batch, seed), tf.constant(0.0)
    size = batch.y.shape[0] // count

    def part(index: Tensor, held: Held) -> Gradients:
        own = view(batch, index, size)
        return micro(held, own, micro_seed(seed, index, count))

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
    losses, grads, overwrites = sums.means(carried)
    # The same object says that nothing has changed, though it went through the loop.
    kept = [
        [old if new is old else last for old, new, last in zip(*rows, strict=True)]
        for rows in zip(held, first.held, after, strict=True)
    ]
    return Gradients(losses, grads, kept, overwrites), bad


def _is_bad(found: Gradients) -> Tensor:
    norms = [global_norm(grads) for grads in found.scaled]
    finite = tf.reduce_all(each_finite(found.scaled, norms))
    return tf.cast(tf.logical_not(finite), tf.float32)


Carried = tuple[list[Tensor], list[Any], list[Tensor]]


class _Sums:
    """What is added up over the parts; sparse gradients are collected in TensorArrays."""

    def __init__(self, first: Gradients, count: int) -> None:
        self._count = count
        self._first = first

    def start(self, first: Gradients) -> Carried:
        grads = [self._opened(grad) for grad in _given(first.scaled)]
        return first.losses, grads, _given(first.overwrites)

    def add(self, carried: Carried, index: Tensor, found: Gradients) -> Carried:
        losses, sums, largest = carried
        rows = zip(sums, _given(found.scaled), strict=True)
        return (
            [old + new for old, new in zip(losses, found.losses, strict=True)],
            [_added(old, index, grad) for old, grad in rows],
            [tf.maximum(*pair) for pair in zip(largest, _given(found.overwrites), strict=True)],
        )

    def means(self, carried: Carried) -> tuple[list[Tensor], Any, Any]:
        losses, sums, largest = carried
        rows = zip(sums, _given(self._first.scaled), strict=True)
        return (
            [loss / self._count for loss in losses],
            _packed(self._first.scaled, [self._mean(total, grad) for total, grad in rows]),
            _packed(self._first.overwrites, largest),
        )

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


def _given(groups: Sequence[Sequence[Any]]) -> list[Any]:
    """All values of all networks that are not None, one behind the other."""
    return [value for own in groups for value in own if value is not None]


def _packed(groups: Sequence[Sequence[Any]], values: Sequence[Any]) -> list[list[Any]]:
    """The values in the places that `_given` took them from."""
    rest = iter(values)
    return [[None if old is None else next(rest) for old in own] for own in groups]


def _added(total: Any, index: Tensor, grad: Any) -> Any:
    if not isinstance(grad, tf.IndexedSlices):
        return total + grad
    values, indices = total
    return [values.write(index, grad.values), indices.write(index, grad.indices)]

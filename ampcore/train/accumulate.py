"""Gradient accumulation: several micro-batches, one update."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ampcore.data import Batch
from ampcore.models.gradients import Gradients
from ampcore.models.seeds import StepShare
from ampcore.models.task import NonTrainable
from ampcore.precision import each_finite, global_norm, sum_duplicate_rows
from ampcore.profile.phases import Phase
from ampcore.profile.scopes import phase_scope
from ampcore.train.batch_slicing import slice_batch

Tensor = Any
ComputeGradients = Callable[[NonTrainable, Batch, Tensor], Gradients]
"""`models.gradients.gradients` of a task at the current loss scales."""


def accumulate_gradients(
    compute: ComputeGradients,
    share: StepShare,
    non_trainable: NonTrainable,
    batch: Batch,
    seed: Tensor,
) -> tuple[Gradients, Tensor]:
    """The mean losses and gradients of `share.count` equal parts of `batch`, one after the other.

    Sparse gradients stay sparse, with the duplicate rows of all parts summed. For values that
    overwrite variables, and amaxes of float8 tensors, the largest is used, as in Keras.

    Args:
        compute: Computes the gradients of one part from the non-trainable values after the previous
            part.
        share: The number of parts, and which of the step's micro-batches they are.
        non_trainable: The values before the first part.
        batch: The examples of all parts; `share.count` divides their number.
        seed: Int64 (2,), that of the step.

    Returns:
        The gradients, which can be recomputed if there is one part and all are dense; and the
        number of parts with a non-finite gradient, float32, which is not counted for a single part.
    """
    if share.count == 1:
        found, bad = compute(non_trainable, batch, share.seed(seed, 0)), tf.constant(0.0)
    else:
        found, bad = _accumulate(compute, share, non_trainable, batch, seed)
    if any(isinstance(grad, tf.IndexedSlices) for own in found.gradients for grad in own):
        # Once, after the last part: collecting the rows of a part requires a static shape.
        summed = [sum_duplicate_rows(own) for own in found.gradients]
        found = found._replace(gradients=summed, recompute_gradients=None)
    return found, bad


def _accumulate(
    compute: ComputeGradients,
    share: StepShare,
    non_trainable: NonTrainable,
    batch: Batch,
    seed: Tensor,
) -> tuple[Gradients, Tensor]:
    count = share.count
    size = batch.parts[0].shape[0] // count

    def part(index: Tensor, non_trainable: NonTrainable) -> Gradients:
        with phase_scope(Phase.INPUT):
            own = slice_batch(batch, index, size)
        return compute(non_trainable, own, share.seed(seed, index))

    first = part(tf.constant(0), non_trainable)
    sums = _Accumulator(first, count)

    def body(
        index: Tensor, non_trainable: NonTrainable, bad: Tensor, carried: Any
    ) -> tuple[Any, ...]:
        found = part(index, non_trainable)
        carried = sums.add(carried, index, found)
        return index + 1, found.state_updates, bad + _has_nonfinite(found), carried

    # Variables that no part has changed are read here, because a loop carries tensors.
    initial_values = tf.nest.map_structure(tf.convert_to_tensor, first.state_updates)
    _, after, bad, carried = tf.while_loop(
        lambda index, *_: index < count,
        body,
        (tf.constant(1), initial_values, _has_nonfinite(first), sums.start(first)),
        maximum_iterations=count - 1,
    )
    losses, grads, overwrites, amaxes = sums.means(carried)
    # Return the same object for unchanged values, although they went through the loop.
    state_updates = [
        [old if new is old else last for old, new, last in zip(*rows, strict=True)]
        for rows in zip(non_trainable, first.state_updates, after, strict=True)
    ]
    return Gradients(losses, grads, state_updates, overwrites, amaxes=amaxes), bad


def _has_nonfinite(found: Gradients) -> Tensor:
    norms = [global_norm(grads) for grads in found.gradients]
    finite = tf.reduce_all(each_finite(found.gradients, norms))
    return tf.cast(tf.logical_not(finite), tf.float32)


Carried = tuple[list[Tensor], list[Any], list[Tensor], list[Tensor]]


class _Accumulator:
    """The sums over the parts; sparse gradients are collected in TensorArrays."""

    def __init__(self, first: Gradients, count: int) -> None:
        self._count = count
        self._first = first

    def start(self, first: Gradients) -> Carried:
        grads = [self._start_sum(grad) for grad in _flatten_not_none(first.gradients)]
        overwrites, amaxes = _flatten_not_none(first.overwrites), _flatten_not_none(first.amaxes)
        return first.losses, grads, overwrites, amaxes

    def add(self, carried: Carried, index: Tensor, found: Gradients) -> Carried:
        losses, sums, overwrites, amaxes = carried
        rows = zip(sums, _flatten_not_none(found.gradients), strict=True)
        return (
            [old + new for old, new in zip(losses, found.losses, strict=True)],
            [_add_gradient(old, index, grad) for old, grad in rows],
            _largest(overwrites, found.overwrites),
            _largest(amaxes, found.amaxes),
        )

    def means(self, carried: Carried) -> tuple[list[Tensor], Any, Any, Any]:
        losses, sums, overwrites, amaxes = carried
        rows = zip(sums, _flatten_not_none(self._first.gradients), strict=True)
        return (
            [loss / self._count for loss in losses],
            _unflatten(self._first.gradients, [self._mean(total, grad) for total, grad in rows]),
            _unflatten(self._first.overwrites, overwrites),
            _unflatten(self._first.amaxes, amaxes),
        )

    def _start_sum(self, grad: Any) -> Any:
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


def _flatten_not_none(groups: Sequence[Sequence[Any]]) -> list[Any]:
    """All values of all networks that are not None, in one list."""
    return [value for own in groups for value in own if value is not None]


def _largest(values: Sequence[Tensor], others: Sequence[Sequence[Any]]) -> list[Tensor]:
    return [tf.maximum(*pair) for pair in zip(values, _flatten_not_none(others), strict=True)]


def _unflatten(groups: Sequence[Sequence[Any]], values: Sequence[Any]) -> list[list[Any]]:
    """The inverse of `_flatten_not_none`."""
    rest = iter(values)
    return [[None if old is None else next(rest) for old in own] for own in groups]


def _add_gradient(total: Any, index: Tensor, grad: Any) -> Any:
    if not isinstance(grad, tf.IndexedSlices):
        return total + grad
    values, indices = total
    return [values.write(index, grad.values), indices.write(index, grad.indices)]

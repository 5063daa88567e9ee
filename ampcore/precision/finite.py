"""Is every gradient finite, and how long is the gradient."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Tensor = Any


def all_finite(grads: Sequence[Any]) -> Tensor:
    """A boolean scalar: no element of any gradient is NaN or infinite.

    Only the values of sparse gradients (IndexedSlices) are read; None counts as finite.
    """
    values = _values(grads)
    if not values:
        return tf.constant(True)
    # A finite sum of squares proves that every element is finite, and costs nothing where the
    # norm is wanted anyway. An infinite one may be mere overflow of the squares (elements above
    # 1.8e19), so only then look at every element.
    return tf.cond(
        tf.math.is_finite(_sum_of_squares(values)),
        lambda: tf.constant(True),
        lambda: tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for value in values]),
    )


def global_norm(grads: Sequence[Any]) -> Tensor:
    """The L2 norm of all gradients together, float32; infinite when the squares overflow.

    The rows of a sparse gradient count as they are: duplicates are not added up first.
    """
    values = _values(grads)
    return tf.sqrt(_sum_of_squares(values)) if values else tf.constant(0.0)


def exact_norm(grads: Sequence[Any], norm: Tensor) -> Tensor:
    """`norm`, the global norm of `grads`, or the true one where its squares overflowed.

    NaN when a gradient is not finite.
    """

    def by_largest() -> Tensor:
        values = _values(grads)
        largest = tf.reduce_max([tf.reduce_max(tf.abs(value)) for value in values])
        return largest * tf.sqrt(_sum_of_squares([value / largest for value in values]))

    return tf.cond(tf.math.is_finite(norm), lambda: norm, by_largest)


def each_value(change: Callable[[Tensor], Tensor], grads: Sequence[Any]) -> list[Any]:
    """The gradients with their values changed; sparse ones stay sparse, None stays None."""
    changed: list[Any] = []
    for grad in grads:
        if isinstance(grad, tf.IndexedSlices):
            changed.append(tf.IndexedSlices(change(grad.values), grad.indices, grad.dense_shape))
        else:
            changed.append(grad if grad is None else change(grad))
    return changed


def _values(grads: Sequence[Any]) -> list[Tensor]:
    dense = [grad.values if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]
    return [tf.cast(value, tf.float32) for value in dense if value is not None]


def _sum_of_squares(values: Sequence[Tensor]) -> Tensor:
    # l2_loss is half the sum of squares, in one kernel.
    return 2.0 * tf.add_n([tf.nn.l2_loss(value) for value in values])

"""The global norm of gradients, and whether all of them are finite."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Tensor = Any


class DeduplicatedSlices(tf.IndexedSlices):  # type: ignore[misc]
    """A sparse gradient without duplicate rows.

    It must not be deduplicated again: under XLA, tf.unique treats the padding of an earlier
    tf.unique as values.
    """


def all_finite(grads: Sequence[Any]) -> Tensor:
    """A boolean scalar: no element of any gradient is NaN or infinite.

    For sparse gradients (IndexedSlices) the sums of duplicate rows must be finite; they stay
    sparse. None counts as finite.
    """
    [finite] = each_finite([grads], [global_norm(grads)])
    return finite


def each_finite(
    groups: Sequence[Sequence[Any] | Callable[[], Sequence[Any]]], norms: Sequence[Tensor]
) -> list[Tensor]:
    """For each group of gradients, whether all of them are finite; `norms` are their global norms.

    A finite norm proves that every element is finite, and that the sums of duplicate rows are:
    their elements are then below 1.8e19. An infinite norm may be only an overflow of the squares
    (elements above 1.8e19): only then duplicates are summed and every element is checked. A group
    may be a function that computes the gradients in that case: XLA keeps everything in memory that
    a branch might read.
    """
    if not groups:
        return []
    flags: list[Tensor] = tf.cond(
        tf.reduce_all(tf.math.is_finite(norms)),
        lambda: [tf.constant(True) for _ in groups],
        lambda: [_every_element_finite(grads() if callable(grads) else grads) for grads in groups],
    )
    return flags


def global_norm(grads: Sequence[Any]) -> Tensor:
    """The L2 norm of all gradients together, float32; infinite when the squares overflow.

    Args:
        grads: Tensors, tf.IndexedSlices and None. The rows of a sparse gradient count as they
            are: see `sum_duplicate_rows`.
    """
    values = dense_values(grads)
    return tf.sqrt(_sum_of_squares(values)) if values else tf.constant(0.0)


def exact_norm(grads: Sequence[Any], norm: Tensor) -> Tensor:
    """`norm`, the global norm of `grads`, or the true one where its squares overflowed.

    NaN when a gradient is not finite.
    """

    def by_largest() -> Tensor:
        values = dense_values(grads)
        largest = tf.reduce_max([tf.reduce_max(tf.abs(value)) for value in values])
        return largest * tf.sqrt(_sum_of_squares([value / largest for value in values]))

    return tf.cond(tf.math.is_finite(norm), lambda: norm, by_largest)


def clip_by_global_norm(
    grads: Sequence[Any],
    clip_norm: float | None = None,
    norm: Tensor | None = None,
    *,
    limit: float | None = None,
) -> tuple[list[Any], Tensor]:
    """Scale all gradients down together, so that their global norm is at most `clip_norm`.

    Unlike tf.clip_by_global_norm it clips also if the squares overflow, keeps sparse gradients
    sparse, and leaves non-finite gradients non-finite, so that a later finite check sees them.

    Args:
        grads: Unscaled: tensors, tf.IndexedSlices without duplicate rows (`sum_duplicate_rows`),
            and None.
        clip_norm: The largest global norm.
        norm: `global_norm(grads)`, if known.
        limit: The name of `clip_norm` in version 0.5.

    Returns:
        The clipped gradients, and the global norm before clipping, a float32 scalar; NaN if a
        gradient is not finite.

    Source: Pascanu et al. 2013, arXiv:1211.5063, section 3.2.
    """
    if limit is not None:
        message = "clip_by_global_norm(limit=) is now clip_norm=; the old name goes with 0.7"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        if clip_norm is not None:
            raise TypeError("clip_by_global_norm() takes clip_norm or its old name limit, not both")
        clip_norm = limit
    if clip_norm is None:
        raise TypeError("clip_by_global_norm() needs clip_norm, the largest global norm")
    exact = exact_norm(grads, global_norm(grads) if norm is None else norm)
    return scale_to_norm(grads, exact, clip_norm), exact


def scale_to_norm(grads: Sequence[Any], norm: Tensor, clip_norm: float) -> list[Any]:
    """The gradients, whose exact norm is `norm`, times the factor that makes it `clip_norm`."""
    # Non-finite gradients stay non-finite: their norm is NaN, or infinity times zero is NaN.
    factor = tf.minimum(1.0, clip_norm / norm)
    return map_values(lambda value: value * factor, grads)


def sum_duplicate_rows(grads: Sequence[Any]) -> list[Any]:
    """The gradients with every row of a sparse one named once, duplicates added up.

    A sparse gradient names a row as often as the batch looked it up; its norm, a limit on its
    elements and an optimizer's update of slots are right for the sums alone. Dense gradients
    and None stay what they are; no gradient becomes dense.
    """
    return [
        _with_duplicates_summed(grad)
        if isinstance(grad, tf.IndexedSlices) and not isinstance(grad, DeduplicatedSlices)
        else grad
        for grad in grads
    ]


def map_values(change: Callable[[Tensor], Tensor], grads: Sequence[Any]) -> list[Any]:
    """The gradients with their values changed; sparse ones stay sparse, None stays None."""
    changed: list[Any] = []
    for grad in grads:
        if isinstance(grad, tf.IndexedSlices):
            changed.append(type(grad)(change(grad.values), grad.indices, grad.dense_shape))
        else:
            changed.append(grad if grad is None else change(grad))
    return changed


def dense_values(grads: Sequence[Any]) -> list[Tensor]:
    """The values of all gradients that are not None, float32; of sparse ones the rows."""
    dense = [grad.values if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]
    return [tf.cast(value, tf.float32) for value in dense if value is not None]


def _with_duplicates_summed(grad: Any) -> Any:
    rows, segment_ids = tf.unique(grad.indices)
    count = tf.size(rows)
    # In a large table rows seldom meet: then only the look at the indices costs something.
    values = tf.cond(
        count < tf.size(grad.indices),
        lambda: tf.math.unsorted_segment_sum(grad.values, segment_ids, count),
        lambda: grad.values,
    )
    return DeduplicatedSlices(values, rows, grad.dense_shape)


def _every_element_finite(grads: Sequence[Any]) -> Tensor:
    flags = [
        tf.reduce_all(tf.math.is_finite(value)) for value in dense_values(sum_duplicate_rows(grads))
    ]
    return tf.reduce_all(flags) if flags else tf.constant(True)


def _sum_of_squares(values: Sequence[Tensor]) -> Tensor:
    # l2_loss is half the sum of squares, in one kernel.
    return 2.0 * tf.add_n([tf.nn.l2_loss(value) for value in values])

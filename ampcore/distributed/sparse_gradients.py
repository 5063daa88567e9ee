"""Sparse gradients of several ranks; none of them becomes dense.

The gradient of a replicated table is combined over all ranks, since each has looked up other
rows. That of a sharded table stays on its rank: the lookup has brought it there from all ranks.
The decisions about a step need only its norm: the norms of all ranks together stand for it.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from ampcore.distributed.communicator import Communicator
from ampcore.distributed.tables.size_classes import SizeClass, agree_on_sizes
from ampcore.precision import sum_duplicate_rows

Tensor = Any

LARGEST: Final = float(np.finfo(np.float32).max)


def mean_of_rows(communicator: Communicator, grads: Sequence[Any]) -> list[Any]:
    """The mean of sparse gradients over all ranks, the same bits on all of them.

    Args:
        communicator: The ranks.
        grads: Float32 tf.IndexedSlices without duplicate rows, of replicated tables.

    Returns:
        Sparse gradients without duplicate rows.
    """
    if not grads:
        return []
    sizes = agree_on_sizes(communicator, [tf.size(grad.indices) for grad in grads])
    gathered = [
        _gathered(communicator, grad, size) for grad, size in zip(grads, sizes, strict=True)
    ]
    return sum_duplicate_rows(gathered)


def _gathered(communicator: Communicator, grad: Any, size: SizeClass) -> Any:
    """The rows of all ranks one after the other, divided by their number."""
    padding = size.size - tf.size(grad.indices)
    rows = tf.pad(grad.indices + 1, [[0, padding]])  # 0 is padding
    values = tf.pad(grad.values, [[0, padding], [0, 0]])
    [rows] = communicator.all_gather([rows], size.number)
    [values] = communicator.all_gather([values], size.number)
    is_row = rows > 0
    values = tf.boolean_mask(values, is_row) / communicator.size
    return tf.IndexedSlices(values, tf.boolean_mask(rows, is_row) - 1, grad.dense_shape)


def shard_norms(communicator: Communicator, grads: Sequence[Any]) -> Tensor:
    """What this rank adds to the norms of all ranks: a vector (size,) that is 0 for the others.

    The sum of these vectors over the ranks has the norm of each rank's gradients. It is finite
    exactly if all elements of all gradients are; its own norm is that of all of them together.

    Args:
        communicator: The ranks.
        grads: Float32 tf.IndexedSlices without duplicate rows, of sharded tables.
    """
    # In float64 the squares of float32 values do not overflow.
    values = [tf.cast(grad.values, tf.float64) for grad in grads]
    norm = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(value)) for value in values]))
    finite = tf.math.is_finite(norm)
    norm = tf.where(finite, tf.minimum(norm, LARGEST), norm)
    is_this_rank = tf.one_hot(
        communicator.rank, communicator.size, on_value=True, off_value=False, dtype=tf.bool
    )
    return tf.where(is_this_rank, tf.cast(norm, tf.float32), 0.0)

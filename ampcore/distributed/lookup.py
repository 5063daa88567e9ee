"""Looks up rows of a table whose rows live on several ranks, and sends their gradients back.

    keys → distinct keys → to their owners → rows, cast → back → vectors
    gradients of vectors → sums of equal keys, float32 → to the owners → IndexedSlices of own rows

Each rank asks for a row once, however often its batch names it. Rows travel in the dtype that the
model computes in. Their gradients travel in float32, because they are sums over all examples of a
rank: in float16 a sum could overflow where no gradient does, and steps would be skipped that one
process would not skip.

Source: NVIDIA's distributed-embeddings: rows are looked up in float32 and cast before they travel.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ampcore.distributed.communicator import Communicator
from ampcore.distributed.row_shards import RowShard
from ampcore.distributed.tables.size_classes import SizeClass, agree_on_sizes

Tensor = Any


def sharded_lookup(
    communicator: Communicator, shard: RowShard, table: Any, keys: Tensor, dtype: Any = tf.float32
) -> Tensor:
    """The vectors of keys from a table of which every rank has its own rows.

    All ranks call it together, each with its own keys; it may be part of a compiled function, but
    not of a branch. It is differentiable: the gradient by `table` is a tf.IndexedSlices of local
    rows, the sum over the losses of all ranks.

    Args:
        communicator: The ranks of the job.
        shard: The rows of this rank.
        table: Its rows, (shard.local_rows, dim): a variable or a tensor.
        keys: Integers of any shape, from 0 to shard.rows - 1.
        dtype: The dtype of the vectors.

    Returns:
        A tensor of the shape of the keys, and `dim`.
    """
    if communicator.size == 1:
        return tf.cast(tf.gather(table, keys), dtype)
    flat = tf.reshape(keys, [-1])
    with tf.name_scope("sharded_lookup"):
        route = _route(communicator, shard, flat)
        rows = tf.gather(table, route.asked_rows)
        vectors = _travel(communicator, route, rows, tf.as_dtype(dtype))
    return tf.reshape(vectors, tf.concat([tf.shape(keys), tf.shape(vectors)[1:]], axis=0))


class _Route(NamedTuple):
    """Which rows this rank receives from the others, and which it sends.

    Attributes:
        size: The rows that each pair of ranks exchanges, with padding.
        place: For each key, the place of its vector among all that are received.
        asked_rows: The local rows that any rank asks for, in the order in which they are sent.
        asked_places: Their places among all that are sent.
    """

    size: SizeClass
    place: Tensor
    asked_rows: Tensor
    asked_places: Tensor


def _route(communicator: Communicator, shard: RowShard, keys: Tensor) -> _Route:
    ranks = communicator.size
    distinct, positions = tf.unique(keys)
    owners = tf.cast(shard.owner(distinct), tf.int32)
    counts = tf.math.bincount(owners, minlength=ranks, maxlength=ranks)
    [size] = agree_on_sizes(communicator, [tf.reduce_max(counts)])
    # The distinct keys by owner, and the place of each among those of its owner.
    order = tf.argsort(owners, stable=True)
    starts = tf.cumsum(counts, exclusive=True)
    number = tf.range(tf.size(distinct)) - tf.gather(starts, tf.gather(owners, order))
    sorted_places = tf.gather(owners, order) * size.size + number
    places = tf.scatter_nd(order[:, tf.newaxis], sorted_places, tf.shape(order))
    requested_rows = tf.scatter_nd(
        places[:, tf.newaxis],
        tf.cast(shard.local(distinct), tf.int32) + 1,  # 0 is padding
        [ranks * size.size],
    )
    [asked] = communicator.all_to_all([requested_rows], size.number)
    asked_places = tf.cast(tf.where(asked > 0)[:, 0], tf.int32)
    return _Route(
        size, tf.gather(places, positions), tf.gather(asked, asked_places) - 1, asked_places
    )


def _travel(communicator: Communicator, route: _Route, rows: Tensor, dtype: tf.DType) -> Tensor:
    """The vectors of this rank's keys, from the rows that it sends to the others."""
    slots = communicator.size * route.size.size

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def travel(rows: Tensor) -> tuple[Tensor, Any]:
        shape = tf.stack([slots, tf.shape(rows)[1]])
        sent = tf.scatter_nd(route.asked_places[:, tf.newaxis], tf.cast(rows, dtype), shape)
        [received] = communicator.all_to_all([sent], route.size.number)

        def gradient(by_vectors: Tensor) -> Tensor:
            sums = tf.math.unsorted_segment_sum(tf.cast(by_vectors, tf.float32), route.place, slots)
            [back] = communicator.all_to_all([sums], route.size.number)
            return tf.cast(tf.gather(back, route.asked_places), rows.dtype)

        return tf.gather(received, route.place), gradient

    vectors = travel(rows)
    return tf.ensure_shape(vectors, [None, rows.shape[1]])

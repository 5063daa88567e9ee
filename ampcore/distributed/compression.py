"""The mean of gradients that travel in 16 bits and are added up in float32.

Each rank receives its part of all gradients, adds it up in float32, and sends the mean to all
others: half the bytes of a reduction in float32. A reduction in 16 bits itself, as in Horovod's
compression, would round after each addition.
"""

from collections.abc import Sequence
from typing import Any, Literal

import tensorflow as tf

from ampcore.distributed.buckets import DEFAULT_BUCKET_BYTES, in_buckets
from ampcore.distributed.communicator import Communicator

Tensor = Any
GradientDtype = Literal["float32", "float16", "bfloat16"]


def mean_in_16_bits(
    communicator: Communicator,
    gradients: Sequence[Tensor],
    dtype: GradientDtype,
    factors: Sequence[Tensor] | None = None,
) -> list[Tensor]:
    """The mean of each gradient over all ranks, the same bits on all of them.

    Args:
        communicator: The ranks.
        gradients: Float32 tensors.
        dtype: float16 or bfloat16.
        factors: For each gradient, a factor for the way, which is divided out afterwards: its loss
            scale, with which small values stay in the range of float16. Too large values become
            infinite, as in the step itself. None: 1.
    """

    def mean(buckets: Sequence[Tensor]) -> list[Tensor]:
        return [_mean_of_bucket(communicator, bucket, dtype) for bucket in buckets]

    bucket_bytes = getattr(communicator, "bucket_bytes", DEFAULT_BUCKET_BYTES)
    if factors is None:
        return in_buckets(mean, gradients, bucket_bytes)
    scaled = [grad * factor for grad, factor in zip(gradients, factors, strict=True)]
    means = in_buckets(mean, scaled, bucket_bytes)
    return [grad / factor for grad, factor in zip(means, factors, strict=True)]


def _mean_of_bucket(communicator: Communicator, bucket: Tensor, dtype: GradientDtype) -> Tensor:
    size = communicator.size
    elements = bucket.shape.num_elements()
    flat = tf.reshape(bucket, [-1])
    padding = -elements % size
    padded = tf.pad(flat, [[0, padding]]) if padding else flat
    [received] = communicator.all_to_all([tf.cast(padded, dtype)])
    parts = tf.cast(tf.reshape(received, [size, -1]), tf.float32)
    mean = tf.reduce_sum(parts, axis=0) / size
    [gathered] = communicator.all_gather([tf.cast(mean, dtype)])
    return tf.reshape(tf.cast(gathered[:elements], tf.float32), bucket.shape)

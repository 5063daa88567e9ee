"""Buckets: several tensors are exchanged as one, because each operation has its own latency.

Source: Li et al. 2020, PyTorch Distributed, arXiv:2006.15704, section 3.2.3.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorflow as tf

Tensor = Any
OnParts = Callable[[Sequence[Tensor]], list[Tensor]]

DEFAULT_BUCKET_BYTES: Final = 4 * 2**20
"""Large enough that the latency of an operation is small against its transfer; small enough that
the first buckets are exchanged while the gradients of the last ones are computed."""


def in_buckets(apply: OnParts, tensors: Sequence[Tensor], bucket_bytes: int) -> list[Tensor]:
    """Apply an elementwise operation to tensors, concatenated into buckets of one dtype.

    The last tensors come first: the gradients of the last layers are ready first.

    Args:
        apply: The operation on a list of tensors; the results have the same shapes.
        tensors: Any tensors. A bucket has neighbours only, and depends only on its own tensors, so
            that it does not wait for others.
        bucket_bytes: The size from which a bucket takes no further tensor.
    """
    results: list[Tensor] = [None] * len(tensors)
    groups = _from_the_end(tensors, bucket_bytes)
    joined = [_join([tensors[index] for index in group]) for group in groups]
    for group, result in zip(groups, apply(joined), strict=True):
        members = [tensors[index] for index in group]
        for index, part in zip(group, _split(result, members), strict=True):
            results[index] = part
    return results


def _from_the_end(tensors: Sequence[Tensor], bucket_bytes: int) -> list[list[int]]:
    """The buckets of the reversed tensors, each in the order of the tensors."""
    last = len(tensors) - 1
    groups = buckets(tensors[::-1], bucket_bytes)
    return [[last - index for index in reversed(group)] for group in groups]


def buckets(tensors: Sequence[Tensor], bucket_bytes: int) -> list[list[int]]:
    """The indices of the tensors of each bucket, in order."""
    all_buckets: list[list[int]] = []
    open_buckets: dict[Any, tuple[list[int], int]] = {}
    for index, tensor in enumerate(tensors):
        size = tensor.shape.num_elements()
        if size is None:  # it cannot be split off again
            all_buckets.append([index])
            continue
        bucket, filled = open_buckets.get(tensor.dtype, (None, 0))
        if bucket is None or filled >= bucket_bytes:
            bucket, filled = [], 0
            all_buckets.append(bucket)
        bucket.append(index)
        open_buckets[tensor.dtype] = bucket, filled + size * tensor.dtype.size
    return all_buckets


def _join(tensors: list[Tensor]) -> Tensor:
    if len(tensors) == 1:
        return tensors[0]
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)


def _split(result: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    if len(tensors) == 1:
        return [result]
    sizes = [tensor.shape.num_elements() for tensor in tensors]
    parts = tf.split(result, sizes)
    return [tf.reshape(part, like.shape) for part, like in zip(parts, tensors, strict=True)]

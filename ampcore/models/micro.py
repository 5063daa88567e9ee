"""The noise of micro-batches: each part of a step has a seed of its own."""

from typing import Any

import tensorflow as tf

Tensor = Any


def micro_seed(seed: Tensor, index: Tensor | int, count: int) -> Tensor:
    """The seed, int64 (2,), of the micro-batch `index` of a step of `count`.

    A step that is not divided keeps its own.
    """
    if count == 1:
        return seed
    # The algorithm is named so that every engine and device derives the same seeds.
    return tf.random.experimental.stateless_fold_in(seed, tf.cast(index, seed.dtype), alg="philox")

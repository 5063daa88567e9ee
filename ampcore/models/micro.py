"""The noise of micro-batches: each part of a step has a seed of its own."""

from typing import Any, Final

import tensorflow as tf

Tensor = Any

STRIDE: Final = 1_000_003
"""Far from the seeds of the next steps, which differ by 1."""


def micro_seed(seed: Tensor, index: Tensor | int) -> Tensor:
    """The seed of the micro-batch `index` of a step; the first one's is the step's own."""
    return seed + tf.stack([0, tf.cast(index, seed.dtype)]) * STRIDE

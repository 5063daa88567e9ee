"""Slices a batch out of a window of examples."""

from typing import Any

import tensorflow as tf

from ampcore.data import Batch

Tensor = Any


def slice_batch(window: Batch, number: Tensor, size: int) -> Batch:
    """Batch `number` of the window's batches of `size`; without a copy on the graph executor."""

    def rows(part: Tensor) -> Tensor:
        example_shape = part.shape[1:]
        return tf.slice(part, [number * size, *(0 for _ in example_shape)], [size, *example_shape])

    return window.map(rows)


def gather_batch(window: Batch, number: Tensor, size: int) -> Batch:
    """The same batch for XLA, which would compile a slice again for each start index.

    The window must hold whole batches only.
    """
    return window.map(lambda part: tf.gather(tf.reshape(part, [-1, size, *part.shape[1:]]), number))

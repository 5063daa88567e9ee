"""Hands the loop the training examples of an epoch, on the device and in that epoch's order."""

import numpy as np
import tensorflow as tf

from ampcore.data import Dataset
from ampcore.train.step import Batch

# Salts the generator, so that other users of the job's seed draw other numbers.
STREAM = 2


class Feed:
    """The training examples on the device.

    The order of an epoch depends on the seed and the epoch alone. With shuffling a second
    copy of the examples lies in that order, because batches cut from it need no copying.
    """

    def __init__(self, dataset: Dataset, *, shuffle: bool, seed: int) -> None:
        self._examples = Batch(tf.constant(dataset.x_train), tf.constant(dataset.y_train))
        self._shuffle, self._seed = shuffle, seed

    def epoch(self, index: int) -> Batch:
        """The examples in the order of epoch `index`."""
        if not self._shuffle:
            return self._examples
        order = tf.constant(permutation(self._seed, index, len(self._examples.y)))
        return Batch(*(tf.gather(part, order) for part in self._examples))


def permutation(seed: int, epoch: int, count: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """The order of `count` examples in one epoch."""
    return np.random.default_rng([seed, STREAM, epoch]).permutation(count)

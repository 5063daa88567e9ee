"""A sparse gradient that names a row twice updates it with the sum, in every optimizer."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore.compat import LossScaleOptimizer
from tests.ampcore.compat.optimizers import OPTIMIZERS


def train(make: Any, rows: list[int], values: list[list[float]]) -> Any:
    """The table after three steps with this gradient."""
    table = keras.Variable(np.ones([5, 2], np.float32))
    optimizer = LossScaleOptimizer(make(), initial_scale=4.0)
    for _ in range(3):
        optimizer.get_scaled_loss(tf.constant(1.0))
        scaled = tf.IndexedSlices(tf.constant(values) * 4.0, tf.constant(rows), tf.constant([5, 2]))
        grads = optimizer.get_unscaled_gradients([scaled])
        optimizer.apply_gradients(zip(grads, [table], strict=True))
    return table.numpy()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_row_is_updated_with_the_sum_of_its_duplicates(name):
    found = train(OPTIMIZERS[name], [1, 3, 1], [[0.25, -0.5], [0.5, 0.5], [0.75, -0.25]])
    expected = train(OPTIMIZERS[name], [1, 3], [[1.0, -0.75], [0.5, 0.5]])
    assert np.array_equal(found, expected)

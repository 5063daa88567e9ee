"""Shared fixtures of the optimizer tests."""

import pytest
import tensorflow as tf


@pytest.fixture(scope="session")
def as_rows():
    """Makes a sparse gradient of all rows of a dense one."""

    def make(grad):
        return tf.IndexedSlices(grad, tf.range(grad.shape[0]), tf.constant(list(grad.shape)))

    return make

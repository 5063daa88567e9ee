import numpy as np
import pytest
import tensorflow as tf

from ampcore.data import Batch
from ampcore.training.step.batch_slicing import gather_batch, slice_batch


@pytest.mark.parametrize("slicing", [slice_batch, gather_batch])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 1)])
def test_a_batch_is_sliced_at_its_position(slicing, shape):
    x = np.random.default_rng(0).random((12, *shape), np.float32)
    y = np.arange(12, dtype=np.int32)
    batch = slicing(Batch(tf.constant(x), tf.constant(y)), tf.constant(2), 4)
    np.testing.assert_array_equal(batch.x, x[8:12])
    np.testing.assert_array_equal(batch.y, y[8:12])
    assert batch.x.shape == (4, *shape)

"""Tensors are exchanged in buckets of one dtype, and come back with their own shapes."""

import numpy as np
import tensorflow as tf

from ampcore.distributed.buckets import buckets, in_buckets

TENSORS = [
    tf.constant(1.5),
    tf.range(6, dtype=tf.float32),
    tf.constant([[1, 2], [3, 4]]),
    tf.zeros([0, 3]),
    tf.ones([2, 2]) * 7,
    tf.constant([5]),
]


def test_a_bucket_has_neighbours_of_one_dtype_up_to_its_size():
    assert buckets(TENSORS, 20) == [[0, 1], [2, 5], [3, 4]]
    assert buckets(TENSORS, 1) == [[0], [1], [2], [3, 4], [5]]
    assert buckets(TENSORS, 2**20) == [[0, 1, 3, 4], [2, 5]]


def test_each_tensor_comes_back_in_its_shape():
    sizes = []

    def double(parts):
        sizes.append(len(parts))
        return [part * 2 for part in parts]

    found = in_buckets(double, TENSORS, 20)
    assert sizes == [3]
    for own, tensor in zip(found, TENSORS, strict=True):
        assert own.dtype == tensor.dtype
        np.testing.assert_array_equal(own, tensor * 2)


def test_the_last_tensors_are_exchanged_first():
    """Their gradients are ready first."""
    exchanged = []

    def keep(parts):
        exchanged.extend(part.numpy().tolist() for part in parts)
        return parts

    values = [tf.fill([2], float(number)) for number in range(5)]
    found = in_buckets(keep, values, 16)
    assert exchanged == [[3, 3, 4, 4], [1, 1, 2, 2], [0, 0]]
    assert [each.numpy().tolist() for each in found] == [each.numpy().tolist() for each in values]


def test_a_tensor_whose_size_is_unknown_has_a_bucket_of_its_own():
    @tf.function(input_signature=[tf.TensorSpec([None]), tf.TensorSpec([2])])
    def add(unknown, known):
        return in_buckets(lambda parts: [part + 1 for part in parts], [known, unknown, known], 100)

    found = add(tf.zeros([3]), tf.zeros([2]))
    assert [each.shape.as_list() for each in found] == [[2], [3], [2]]

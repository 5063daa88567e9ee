import numpy as np
import pytest
import tensorflow as tf

from ampcore.precision import all_finite, each_value, exact_norm, global_norm

SPARSE = tf.IndexedSlices(tf.constant([[3.0, 4.0]]), tf.constant([0]), tf.constant([5, 2]))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("values", "finite"),
    [
        ([1.0, -2.0], True),
        ([1e30, -1e30], True),  # the squares overflow, the values do not
        ([1.0, np.inf], False),
        ([1.0, -np.inf], False),
        ([np.nan, 1.0], False),
        ([], True),
    ],
)
def test_finite_means_every_element_is(compiled, values, finite):
    check = tf.function(all_finite) if compiled else all_finite
    assert bool(check([tf.ones([3]), None, tf.constant(values, tf.float32)])) is finite


def test_only_the_values_of_sparse_gradients_are_looked_at():
    bad = tf.IndexedSlices(tf.constant([[np.inf]]), tf.constant([0]), tf.constant([10**9, 1]))
    assert all_finite([SPARSE])
    assert not all_finite([SPARSE, bad])


def test_nothing_is_finite_and_has_no_length():
    assert all_finite([None])
    assert global_norm([]) == 0.0


def test_the_norm_spans_all_gradients():
    assert float(global_norm([SPARSE, None, tf.constant([[12.0]])])) == pytest.approx(13.0)


def test_the_norm_of_float16_gradients_is_taken_in_float32():
    norm = global_norm([tf.fill([4], tf.constant(30000.0, tf.float16))])
    assert norm.dtype == tf.float32
    assert float(norm) == pytest.approx(60000.0, rel=1e-3)


def test_the_exact_norm_survives_squares_that_overflow():
    grads = [tf.constant([3e19]), None, tf.constant([[4e19]])]
    assert np.isinf(global_norm(grads))
    assert float(exact_norm(grads, global_norm(grads))) == pytest.approx(5e19)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_the_exact_norm_of_what_is_not_finite_is_none(value):
    grads = [tf.constant([1.0, value])]
    assert np.isnan(exact_norm(grads, global_norm(grads)))


def test_changing_values_keeps_sparse_gradients_sparse_and_none_none():
    dense, sparse, nothing = each_value(lambda value: value * 2.0, [tf.ones([1]), SPARSE, None])
    assert dense.numpy().tolist() == [2.0]
    assert isinstance(sparse, tf.IndexedSlices)
    assert sparse.values.numpy().tolist() == [[6.0, 8.0]]
    assert nothing is None

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcore.precision import (
    all_finite,
    clip_by_global_norm,
    each_finite,
    exact_norm,
    global_norm,
    map_values,
    sum_duplicate_rows,
)
from ampcore.precision.lowering import XLA

SPARSE = tf.IndexedSlices(tf.constant([[3.0, 4.0]]), tf.constant([0]), tf.constant([5, 2]))


@pytest.fixture(scope="module", params=["eager", "graph", "xla"])
def compiled(request):
    """Compiles a function of tensors in one way: each function once, for all tests."""
    made = {}

    def compile_(function):
        if request.param == "eager":
            return function
        if function not in made:
            made[function] = tf.function(
                function, autograph=False, jit_compile=request.param == "xla", reduce_retracing=True
            )
        return made[function]

    return compile_


@pytest.mark.parametrize(
    ("values", "finite"),
    [
        ([1.0, -2.0], True),
        ([1e30, -1e30], True),  # the squares overflow, the values do not
        ([1.0, np.inf], False),
        ([1.0, -np.inf], False),
        ([np.nan, 1.0], False),
    ],
)
def test_all_finite_checks_every_element(compiled, values, finite):
    check = compiled(all_finite)
    assert bool(check([tf.ones([3]), None, tf.constant(values, tf.float32)])) is finite


@pytest.mark.parametrize(("value", "finite"), [(1e38, True), (3e38, False), (-3e38, False)])
def test_all_finite_checks_the_sum_of_duplicate_rows(compiled, value, finite):
    def check(values, rows):
        return all_finite([tf.IndexedSlices(values, rows, tf.constant([5, 1]))])

    given = tf.constant([[value], [1.0], [value]]), tf.constant([4, 0, 4])
    assert bool(compiled(check)(*given)) is finite


def test_an_empty_gradient_is_finite():
    assert all_finite([tf.zeros([0]), tf.ones([1])])


def test_each_finite_checks_every_group_separately(compiled):
    def check(first, second):
        groups = [[first, None], [second], []]
        return each_finite(groups, [global_norm(grads) for grads in groups])

    grads = tf.constant([1e30, 2.0]), tf.constant([np.nan])
    assert [bool(flag) for flag in compiled(check)(*grads)] == [True, False, True]


def test_all_finite_reads_only_the_values_of_sparse_gradients():
    bad = tf.IndexedSlices(tf.constant([[np.inf]]), tf.constant([0]), tf.constant([10**9, 1]))
    assert all_finite([SPARSE])
    assert not all_finite([SPARSE, bad])


def test_no_gradients_are_finite_and_have_norm_zero():
    assert all_finite([None])
    assert global_norm([]) == 0.0


def test_the_norm_spans_all_gradients():
    assert float(global_norm([SPARSE, None, tf.constant([[12.0]])])) == pytest.approx(13.0)


def test_the_norm_of_float16_gradients_is_computed_in_float32():
    norm = global_norm([tf.fill([4], tf.constant(30000.0, tf.float16))])
    assert norm.dtype == tf.float32
    assert float(norm) == pytest.approx(60000.0, rel=1e-3)


@pytest.mark.parametrize("shape", [[7], [64, 64], [65, 64], [300, 301]])
def test_the_norm_for_xla_equals_the_global_norm(shape):
    grads = [tf.random.stateless_normal(shape, [1, 2]), None, tf.constant([3.0])]
    norm = tf.function(lambda: XLA.global_norm(grads), jit_compile=True)()
    assert float(norm) == pytest.approx(float(global_norm(grads)), rel=1e-5)


@pytest.mark.parametrize("index", [0, 5000, -1])
def test_the_norm_for_xla_includes_every_element(index):
    grad = np.zeros(90_301, np.float32)
    grad[index] = np.inf
    assert np.isinf(XLA.global_norm([tf.constant(grad)]))


def exact(grads):
    return exact_norm(grads, global_norm(grads))


def test_the_exact_norm_is_finite_when_squares_overflow(compiled):
    grads = [tf.constant([3e19]), None, tf.constant([[4e19]])]
    assert np.isinf(compiled(global_norm)(grads))
    assert float(compiled(exact)(grads)) == pytest.approx(5e19)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_the_exact_norm_of_gradients_that_are_not_finite_is_nan(compiled, value):
    assert np.isnan(compiled(exact)([tf.constant([1.0, value])]))


DUPLICATES = tf.IndexedSlices(
    tf.constant([[1.0, 2.0], [3.0, 4.0], [-1.0, -2.0], [0.5, 0.5]]),
    tf.constant([7, 2, 7, 2]),
    tf.constant([9, 2]),
)


def test_summed_sparse_gradients_have_unique_row_indices(compiled):
    def summed(values, indices):
        [grad] = sum_duplicate_rows([tf.IndexedSlices(values, indices, tf.constant([9, 2]))])
        return grad.values, grad.indices

    values, indices = compiled(summed)(DUPLICATES.values, DUPLICATES.indices)
    assert indices.numpy().tolist() == [7, 2]
    assert values.numpy().tolist() == [[0.0, 0.0], [3.5, 4.5]]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=12), st.integers(0, 99))
def test_summed_rows_are_the_rows_of_the_dense_gradient(indices, seed):
    values = np.random.default_rng(seed).integers(-8, 8, (len(indices), 3)).astype(np.float32)
    sparse = tf.IndexedSlices(values, tf.constant(indices, tf.int32), tf.constant([6, 3]))
    [summed] = sum_duplicate_rows([sparse])
    assert len(set(summed.indices.numpy().tolist())) == len(summed.indices)
    expected = tf.convert_to_tensor(sparse)
    np.testing.assert_array_equal(tf.convert_to_tensor(summed), expected)
    assert float(global_norm([summed])) == pytest.approx(np.linalg.norm(expected), rel=1e-6)


def test_summing_rows_keeps_dense_gradients_and_none_unchanged():
    dense = tf.ones([2])
    assert sum_duplicate_rows([dense, None]) == [dense, None]


def test_map_values_keeps_sparse_gradients_sparse_and_none_none():
    dense, sparse, nothing = map_values(lambda value: value * 2.0, [tf.ones([1]), SPARSE, None])
    assert dense.numpy().tolist() == [2.0]
    assert isinstance(sparse, tf.IndexedSlices)
    assert sparse.values.numpy().tolist() == [[6.0, 8.0]]
    assert nothing is None


def test_gradients_are_clipped_together_and_sparse_ones_stay_sparse():
    sparse = tf.IndexedSlices(tf.constant([[0.0, 4.0]]), tf.constant([1]), tf.constant([3, 2]))
    clipped, norm = clip_by_global_norm([tf.constant([3.0]), None, sparse], 1.0)
    assert float(norm) == 5.0
    np.testing.assert_allclose(clipped[0], [0.6])
    assert clipped[1] is None
    assert isinstance(clipped[2], tf.IndexedSlices)
    np.testing.assert_allclose(clipped[2].values, [[0.0, 0.8]])


def test_gradients_whose_squares_overflow_are_clipped_and_infinite_ones_stay_non_finite():
    [clipped], norm = clip_by_global_norm([tf.constant([3e30, 4e30])], 1.0)
    np.testing.assert_allclose(norm, 5e30, rtol=1e-6)
    np.testing.assert_allclose(clipped, [0.6, 0.8], rtol=1e-6)
    [clipped], _ = clip_by_global_norm([tf.constant([np.inf, 1.0])], 1.0)
    assert not np.isfinite(clipped).all()


def test_the_name_that_the_largest_norm_had_in_0_5_works_and_warns():
    with pytest.warns(DeprecationWarning, match="clip_norm"):
        [clipped], _ = clip_by_global_norm([tf.constant([3.0, 4.0])], limit=1.0)
    np.testing.assert_allclose(clipped, [0.6, 0.8])
    with pytest.raises(TypeError, match="needs clip_norm"):
        clip_by_global_norm([tf.constant([3.0, 4.0])])


def test_small_gradients_are_not_clipped():
    [kept], norm = clip_by_global_norm([tf.constant([3.0, 4.0])], 5.5)
    np.testing.assert_array_equal(kept, [3.0, 4.0])
    assert float(norm) == 5.0

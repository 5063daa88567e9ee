import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcore import optimizers
from ampspec.objectives.optimizer import Adam, Sgd

EMA, ROWS = 0.75, 6


def start():
    return np.random.default_rng(0).normal(size=(ROWS, 2)).astype(np.float32)


def made(spec=None):
    weight = keras.Variable(start())
    optimizer = optimizers.build(spec or Sgd(learning_rate=0.5, ema=EMA), 10)
    optimizer.build([weight])
    return weight, optimizer


def averaged(optimizer, weight):
    [value] = optimizers.averaged(optimizer, [weight])
    return np.array(value)


def reference(history):
    """The average by the formula, from the weights after each update."""
    average = history[0].astype(np.float64)
    for weights in history[1:]:
        average = EMA * average + (1 - EMA) * weights
    return average


def grads(count):
    return [
        tf.constant(each, tf.float32)
        for each in np.random.default_rng(1).normal(size=(count, ROWS, 2))
    ]


def test_the_average_of_dense_updates_matches_the_formula():
    weight, optimizer = made()
    history = []
    for grad in grads(5):
        optimizer.apply([grad], [weight])
        history.append(weight.numpy())
        np.testing.assert_allclose(averaged(optimizer, weight), reference(history), rtol=1e-5)


def test_the_average_equals_that_of_keras():
    weight, optimizer = made(Adam(ema=EMA))
    theirs, keras_adam = (
        keras.Variable(start()),
        keras.optimizers.Adam(use_ema=True, ema_momentum=EMA),
    )
    for grad in grads(5):
        optimizer.apply([grad], [weight])
        keras_adam.apply([grad], [theirs])
    keras_adam.finalize_variable_values([theirs])
    np.testing.assert_allclose(averaged(optimizer, weight), theirs.numpy(), rtol=1e-5)


@pytest.fixture(scope="module")
def by_rows():
    """Trains a table from the start, by sparse gradients of three of its rows each time."""
    weight, optimizer = made()
    initial = [each.numpy() for each in (weight, *optimizer.variables)]

    @tf.function(autograph=False)
    def update(rows, grad):
        slices = tf.IndexedSlices(grad, rows, tf.constant([ROWS, 2]))
        optimizer.apply([slices], [weight])

    def run(touched):
        for variable, value in zip((weight, *optimizer.variables), initial, strict=True):
            variable.assign(value)
        history = []
        for rows, grad in zip(touched, grads(len(touched)), strict=True):
            update(tf.constant(rows), grad[: len(rows)])
            history.append(weight.numpy())
        return weight, optimizer, history

    return run


touched_rows = st.lists(
    st.permutations(range(ROWS)).map(lambda rows: rows[:3]), min_size=1, max_size=8
)


@settings(max_examples=25, deadline=None)
@given(touched_rows)
def test_the_average_of_sparse_updates_matches_the_formula_in_every_row(by_rows, touched):
    weight, optimizer, history = by_rows(touched)
    np.testing.assert_allclose(
        averaged(optimizer, weight), reference(history), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_assign_averages_sets_the_weights_and_keeps_the_averages(sparse, by_rows):
    if sparse:
        weight, optimizer, _ = by_rows([[0, 1, 2], [3, 1, 2], [0, 3, 2]])
    else:
        weight, optimizer = made()
        for grad in grads(3):
            optimizer.apply([grad], [weight])
    expected = averaged(optimizer, weight)
    assert not np.array_equal(weight.numpy(), expected)
    optimizers.assign_averages(optimizer, [weight])
    np.testing.assert_array_equal(weight.numpy(), expected)
    np.testing.assert_array_equal(averaged(optimizer, weight), expected)


def test_before_the_first_update_the_average_equals_the_weights():
    weight, optimizer = made()
    np.testing.assert_array_equal(averaged(optimizer, weight), start())


def test_without_an_average_the_weights_are_returned_uncopied():
    weight, optimizer = made(Sgd())
    # Not a copy: a large table must not be read as a whole.
    assert optimizers.averaged(optimizer, [weight])[0] is weight.value
    optimizers.assign_averages(optimizer, [weight])
    np.testing.assert_array_equal(weight.numpy(), start())


def test_a_scalar_has_an_average():
    weight, optimizer = keras.Variable(1.0), optimizers.build(Sgd(learning_rate=1.0, ema=EMA), 9)
    for _ in range(2):
        optimizer.apply([tf.constant(1.0)], [weight])
    assert averaged(optimizer, weight) == pytest.approx(EMA * 0.0 + (1 - EMA) * -1.0)


def test_the_average_of_float16_weights_is_float32():
    # A thousandth of the difference is rounded away in a float16 average.
    weight = keras.Variable([1.0], dtype="float16")
    optimizer = optimizers.build(Sgd(learning_rate=1.0, ema=0.999), 9)
    optimizer.apply([tf.constant([0.0])], [weight])
    optimizer.apply([tf.constant([0.25])], [weight])
    assert float(optimizer.average_of(weight).value[0]) == pytest.approx(1 - 0.25e-3, rel=1e-6)
    assert optimizers.averaged(optimizer, [weight])[0].dtype == tf.float16

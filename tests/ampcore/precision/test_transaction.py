import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore.precision import DynamicLossScale, FixedLossScale, NoLossScale, apply_if_finite

SCALE = DynamicLossScale(initial=8.0)


class World:
    """Two optimizers with their variables, and a statistic beside them."""

    def __init__(self):
        self.dense = keras.Variable(tf.ones([3]), name="dense")
        self.table = keras.Variable(tf.ones([5, 2]), name="table")
        self.adam = keras.optimizers.Adam(0.1)
        self.momentum = keras.optimizers.SGD(0.1, momentum=0.9)
        self.mean = keras.Variable(0.0, trainable=False)
        for optimizer, variable in ((self.adam, self.dense), (self.momentum, self.table)):
            optimizer.build([variable])

    def apply(self, scale, dense, rows, *, compiled=True):
        def step():
            sparse = tf.IndexedSlices(rows, tf.constant([1, 3]), tf.constant([5, 2]))
            groups = [(self.adam, [dense], [self.dense]), (self.momentum, [sparse], [self.table])]
            return apply_if_finite(
                scale, scale.init(), groups, also=[(self.mean, tf.constant(7.0))]
            )

        return (tf.function(step) if compiled else step)()

    def values(self):
        variables = [self.dense, self.table, self.mean]
        variables += [*self.adam.variables, *self.momentum.variables]
        return [variable.value.numpy() for variable in variables]


@pytest.fixture
def world():
    return World()


ROWS = tf.ones([2, 2])
FINITE = tf.constant([1.0, 2.0, 3.0])
OVERFLOWED = tf.constant([1.0, np.inf, 3.0])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("scale", [SCALE, FixedLossScale(8.0)])
def test_one_bad_gradient_leaves_every_optimizer_and_statistic_as_it_was(world, compiled, scale):
    world.apply(scale, FINITE, ROWS)
    before = world.values()
    _, finite = world.apply(scale, OVERFLOWED, ROWS, compiled=compiled)
    assert not finite
    for old, new in zip(before, world.values(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_bad_row_of_a_sparse_gradient_holds_back_the_dense_group_too(world):
    before = world.values()
    _, finite = world.apply(SCALE, FINITE, tf.constant([[1.0, np.nan], [1.0, 1.0]]))
    assert not finite
    np.testing.assert_array_equal(world.values()[0], before[0])
    assert world.adam.iterations == 0


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("scale", [NoLossScale(), FixedLossScale(8.0), SCALE])
def test_finite_gradients_are_applied_as_keras_would(world, compiled, scale):
    _, finite = world.apply(scale, FINITE, ROWS, compiled=compiled)
    plain = World()
    plain.adam.apply([FINITE], [plain.dense])
    sparse = tf.IndexedSlices(ROWS, tf.constant([1, 3]), tf.constant([5, 2]))
    plain.momentum.apply([sparse], [plain.table])
    plain.mean.assign(7.0)
    assert finite
    for ours, theirs in zip(world.values(), plain.values(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_the_scale_follows_the_outcome(world):
    state, _ = world.apply(SCALE, OVERFLOWED, ROWS)
    assert state.scale == 4.0
    state, _ = world.apply(SCALE, FINITE, ROWS)
    assert (state.scale, state.good_steps) == (8.0, 1)


def test_without_a_finite_check_everything_is_applied(world):
    _, finite = world.apply(NoLossScale(), OVERFLOWED, ROWS)
    assert finite
    assert world.mean == 7.0
    assert not np.isfinite(world.dense.value).all()


def test_slots_are_made_before_they_are_needed():
    variable, optimizer = keras.Variable(1.0), keras.optimizers.Adam()
    step = tf.function(
        lambda: apply_if_finite(
            SCALE, SCALE.init(), [(optimizer, [tf.constant(np.nan)], [variable])]
        )
    )
    assert not step()[1]
    assert optimizer.built
    assert optimizer.iterations == 0

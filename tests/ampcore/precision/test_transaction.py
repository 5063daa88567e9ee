import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcore import optimizers
from ampcore.precision import (
    CalibratedLossScale,
    DynamicLossScale,
    FixedLossScale,
    NoLossScale,
    apply_all_if_finite,
    apply_if_finite,
)
from ampcore.precision.lowering import GRAPH, XLA, OptimizerUpdate
from ampcore.precision.transaction import commit_or_skip
from ampspec.objectives.optimizer import Momentum, Sgd

SCALE = DynamicLossScale(initial=8.0)


class TwoOptimizers:
    """Two optimizers with their variables, and a statistic."""

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
                scale, scale.init(), groups, state_updates=[(self.mean, tf.constant(7.0))]
            )

        return (tf.function(step) if compiled else step)()

    def values(self):
        variables = [self.dense, self.table, self.mean]
        variables += [*self.adam.variables, *self.momentum.variables]
        return [variable.value.numpy() for variable in variables]


@pytest.fixture
def two_optimizers():
    return TwoOptimizers()


ROWS = tf.ones([2, 2])
FINITE = tf.constant([1.0, 2.0, 3.0])
OVERFLOWED = tf.constant([1.0, np.inf, 3.0])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("scale", [SCALE, FixedLossScale(8.0)])
def test_one_infinite_gradient_leaves_every_optimizer_and_statistic_unchanged(
    two_optimizers, compiled, scale
):
    two_optimizers.apply(scale, FINITE, ROWS)
    before = two_optimizers.values()
    _, finite = two_optimizers.apply(scale, OVERFLOWED, ROWS, compiled=compiled)
    assert not finite
    for old, new in zip(before, two_optimizers.values(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_nan_in_a_sparse_gradient_skips_the_dense_group_too(two_optimizers):
    """With two apply calls in one step, Keras's LossScaleOptimizer applies half of the step."""
    before = two_optimizers.values()
    _, finite = two_optimizers.apply(SCALE, FINITE, tf.constant([[1.0, np.nan], [1.0, 1.0]]))
    assert not finite
    np.testing.assert_array_equal(two_optimizers.values()[0], before[0])
    assert two_optimizers.adam.iterations == 0


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("scale", [NoLossScale(), FixedLossScale(8.0), SCALE])
def test_finite_gradients_are_applied_as_keras_applies_them(two_optimizers, compiled, scale):
    _, finite = two_optimizers.apply(scale, FINITE, ROWS, compiled=compiled)
    plain = TwoOptimizers()
    plain.adam.apply([FINITE], [plain.dense])
    sparse = tf.IndexedSlices(ROWS, tf.constant([1, 3]), tf.constant([5, 2]))
    plain.momentum.apply([sparse], [plain.table])
    plain.mean.assign(7.0)
    assert finite
    for ours, theirs in zip(two_optimizers.values(), plain.values(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_the_scale_is_adjusted_once_per_step(two_optimizers):
    """Keras adjusts its scale once per apply call, which is once per group."""
    state, _ = two_optimizers.apply(SCALE, OVERFLOWED, ROWS)
    assert state.scale == 4.0
    state, _ = two_optimizers.apply(SCALE, FINITE, ROWS)
    assert (state.scale, state.good_steps) == (8.0, 1)


def test_without_a_finite_check_everything_is_applied(two_optimizers):
    _, finite = two_optimizers.apply(NoLossScale(), OVERFLOWED, ROWS)
    assert finite
    assert two_optimizers.mean == 7.0
    assert not np.isfinite(two_optimizers.dense.value).all()


def test_optimizer_slots_are_built_even_if_the_first_step_is_skipped():
    variable, optimizer = keras.Variable(1.0), keras.optimizers.Adam()
    step = tf.function(
        lambda: apply_if_finite(
            SCALE, SCALE.init(), [(optimizer, [tf.constant(np.nan)], [variable])]
        )
    )
    assert not step()[1]
    assert optimizer.built
    assert optimizer.iterations == 0


class Pair:
    """The variables of two networks, each with its own optimizer and its own loss scale."""

    SCALES = (
        DynamicLossScale(initial=8.0, growth_interval=3),
        CalibratedLossScale(initial=64.0, growth_interval=2, calibration_steps=5, audit_interval=4),
    )

    def __init__(self, *, compiled=False):
        decay = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
        self.optimizers = [
            keras.optimizers.Adam(decay, use_ema=True, ema_momentum=0.9),
            keras.optimizers.SGD(0.1, momentum=0.9, weight_decay=0.01),
        ]
        self.variables = [
            [keras.Variable(tf.ones([3])), keras.Variable(tf.ones([2, 2]))],
            [keras.Variable(tf.ones([2]))],
        ]
        for optimizer, variables in zip(self.optimizers, self.variables, strict=True):
            optimizer.build(variables)
        self.statistic = keras.Variable(0.0, trainable=False)
        self.states = tuple(scale.init() for scale in self.SCALES)
        self._step = tf.function(self._apply, autograph=False, jit_compile=compiled)

    def _apply(self, states, grads, statistic):
        groups = list(zip(self.optimizers, grads, self.variables, strict=True))
        return apply_all_if_finite(self.SCALES, states, groups, [(self.statistic, statistic)])

    def step(self, grads, statistic):
        self.states, applied, finite = self._step(self.states, grads, tf.constant(statistic))
        return bool(applied), [bool(flag) for flag in finite]

    def values(self):
        """Weights, slots, averages, iteration counts, learning rates, and the statistic."""
        kept = [variable for part in self.variables for variable in part]
        kept += [variable for optimizer in self.optimizers for variable in optimizer.variables]
        return [variable.numpy() for variable in [*kept, self.statistic]]


BAD = st.sampled_from([None, None, np.nan, np.inf, -np.inf])


@pytest.fixture(scope="module", params=[False, True], ids=["graph", "xla"])
def pair(request):
    return Pair(compiled=request.param)


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.tuples(BAD, BAD, st.integers(0, 6)), min_size=1, max_size=12))
def test_a_step_is_applied_to_all_groups_or_to_none(pair, steps):
    for number, (*bad, index) in enumerate(steps):
        before, states = pair.values(), pair.states
        applied, finite = pair.step(gradients(bad, index), float(number + 1))
        assert finite == [value is None for value in bad]
        assert applied is all(finite)
        # Values change if and only if the step is applied; a skip changes not a bit of any.
        moved = [
            old.tobytes() != new.tobytes() for old, new in zip(before, pair.values(), strict=True)
        ]
        assert any(moved) is applied
        for scale, old, new, flag in zip(pair.SCALES, states, pair.states, finite, strict=True):
            expected = scale.adjust(old, tf.constant(flag))
            assert [float(part) for part in new] == [float(part) for part in expected]


def gradients(bad, index):
    """Ones for each group; at one index of a group, a value that is not finite if one is given."""
    groups = []
    for shapes, value in zip(([(3,), (2, 2)], [(2,)]), bad, strict=True):
        sizes = [int(np.prod(shape)) for shape in shapes]
        flat = np.ones(sum(sizes), np.float32)
        if value is not None:
            flat[index % len(flat)] = value
        parts = np.split(flat, np.cumsum(sizes)[:-1])
        groups.append([part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)])
    return tf.nest.map_structure(tf.constant, groups)


def test_an_applied_step_changes_every_group():
    pair = Pair()
    before = pair.values()
    assert pair.step(gradients([None, None], 0), 1.0) == (True, [True, True])
    unchanged = [
        old.tobytes() == new.tobytes() for old, new in zip(before, pair.values(), strict=True)
    ]
    assert sum(unchanged) == 1  # the constant learning rate of one optimizer
    assert [optimizer.iterations for optimizer in pair.optimizers] == [1, 1]


def commit(scales, grads, norms=None, **known):
    variables = [keras.Variable(tf.ones([2])) for _ in scales]
    updates = [
        OptimizerUpdate(
            keras.optimizers.SGD(0.5),
            [grad],
            [variable],
            checks_finite=scale.checks_finite,
            norm=norm,
            **known,
        )
        for scale, grad, variable, norm in zip(
            scales, grads, variables, norms or [None] * len(grads), strict=True
        )
    ]
    states = [scale.init() for scale in scales]
    outcome = commit_or_skip(scales, states, updates, [], lowering=GRAPH)
    return outcome, [variable.numpy().tolist() for variable in variables]


def test_each_scale_is_adjusted_by_the_gradients_of_its_own_group():
    outcome, weights = commit([SCALE, SCALE], [OVERFLOWED[:2], FINITE[:2]])
    assert weights == [[1, 1], [1, 1]]
    assert [float(state.scale) for state in outcome.states] == [4.0, 8.0]
    assert [int(state.good_steps) for state in outcome.states] == [0, 1]


def test_a_group_without_a_finite_check_never_skips_a_step():
    outcome, weights = commit([NoLossScale(), SCALE], [OVERFLOWED[:2], FINITE[:2]])
    assert outcome.applied
    assert all(outcome.finite)
    assert weights[1] == [0.5, 0.0]


def test_an_infinite_norm_of_finite_gradients_skips_no_step():
    grads = [tf.constant([1e30, 0.0]), FINITE[:2]]
    norms = [tf.constant(np.inf, tf.float32), tf.constant(2.0)]
    outcome, _ = commit([SCALE, SCALE], grads, norms=norms)
    assert outcome.applied


def test_gradients_with_a_finite_norm_are_not_checked_again():
    # The norm contradicts the gradients, which shows that only the norm is read.
    outcome, _ = commit([SCALE], [OVERFLOWED[:2]], norms=[tf.constant(1.0)])
    assert outcome.applied


@pytest.mark.parametrize(("recomputed", "applied"), [(FINITE, True), (OVERFLOWED, False)])
def test_an_infinite_norm_leads_to_a_check_of_recomputed_gradients(recomputed, applied):
    norms = [tf.constant(np.inf, tf.float32)]
    outcome, _ = commit(
        [SCALE], [FINITE[:2]], norms=norms, recompute_gradients=lambda: [recomputed[:2]]
    )
    assert bool(outcome.applied) is applied


def test_many_overflows_in_a_row_put_no_nan_into_the_weights():
    """Keras halves its scale without a floor: after 142 bad steps it is 0.

    The zero gradient that comes next is finite, and 0 / 0 puts NaN into the weights.
    """
    variable, optimizer = keras.Variable(tf.ones([2])), keras.optimizers.SGD(0.5)
    state = SCALE.init()

    @tf.function(autograph=False)
    def step(state, scaled):
        grads = SCALE.unscale(state, [scaled])
        return apply_if_finite(SCALE, state, [(optimizer, grads, [variable])])

    for _ in range(200):
        state, _ = step(state, OVERFLOWED[:2])
    state, finite = step(state, tf.zeros([2]))
    assert finite
    assert state.scale == 1.0
    assert variable.numpy().tolist() == [1.0, 1.0]


def test_a_step_without_groups_is_applied():
    state, applied = apply_if_finite(SCALE, SCALE.init(), [])
    assert applied
    assert state.good_steps == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_in_sixteen_bits_take_float32_gradients(dtype):
    variable = keras.Variable(tf.ones([2]), dtype=dtype)
    optimizer = keras.optimizers.SGD(0.5)
    grads = SCALE.unscale(SCALE.init(), [tf.constant([4.0, 8.0], dtype)])
    assert grads[0].dtype == tf.float32
    apply_if_finite(SCALE, SCALE.init(), [(optimizer, grads, [variable])])
    assert variable.dtype == dtype
    assert tf.cast(variable.value, tf.float32).numpy().tolist() == [0.75, 0.5]


class Halved(keras.constraints.Constraint):
    """Halves a weight, so that applying it once more changes the weight."""

    def __call__(self, value):
        return value * 0.5


def overwritten(value):
    """A variable that its gradient overwrites, as in the float8 layers of Keras."""
    variable = keras.Variable(value)
    variable.overwrite_with_gradient = True
    return variable


class SpecialVariables:
    """A weight with a constraint, and one that is overwritten with its "gradient"."""

    def __init__(self, lowering, optimizer=None):
        self.weight = keras.Variable([4.0, 8.0])
        self.weight.constraint = Halved()
        self.history = overwritten([1.0, 2.0])
        spec = Momentum(learning_rate=1.0, ema=0.5)
        self.optimizer = optimizer or optimizers.build(spec, total_steps=9)
        self.optimizer.build([self.weight, self.history])
        self.state, self._lowering = SCALE.init(), lowering
        self._step = tf.function(self._apply, autograph=False, jit_compile=lowering == XLA)

    def _apply(self, state, grads):
        variables = [self.weight, self.history]
        grads = SCALE.unscale(state, list(grads), variables)
        updates = [OptimizerUpdate.of(self.optimizer, grads, variables)]
        return commit_or_skip([SCALE], [state], updates, [], lowering=self._lowering)

    def step(self, gradient, history):
        scaled = tf.constant(gradient) * self.state.scale, tf.constant(history)
        outcome = self._step(self.state, scaled)
        [self.state] = outcome.states
        return bool(outcome.applied)

    def values(self):
        variables = [self.weight, self.history, *self.optimizer.variables]
        return [variable.numpy() for variable in variables]


FORMS = {
    "keras": lambda: SpecialVariables(GRAPH, keras.optimizers.SGD(1.0, 0.9)),
    "graph": lambda: SpecialVariables(GRAPH),
    "xla step": lambda: SpecialVariables(XLA),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_skipped_step_neither_constrains_nor_overwrites_a_variable(form):
    special = FORMS[form]()
    assert special.step([1.0, 1.0], [3.0, 3.0])
    before = special.values()
    for history in ([5.0, 5.0], [np.inf, np.nan]):
        assert not special.step([np.inf, 1.0], history)
        np.testing.assert_equal(special.values(), before)


@pytest.mark.parametrize("form", FORMS)
def test_an_applied_step_overwrites_a_variable_without_unscaling_the_value(form):
    special = FORMS[form]()
    assert special.step([2.0, 2.0], [70000.0, 3.0])
    np.testing.assert_array_equal(special.weight.numpy(), [1.0, 3.0])
    np.testing.assert_array_equal(special.history.numpy(), [70000.0, 3.0])


@pytest.mark.parametrize("form", FORMS)
def test_the_finite_check_ignores_values_that_overwrite_their_variables(form):
    special = FORMS[form]()
    assert special.step([2.0, 2.0], [np.inf, 3.0])
    np.testing.assert_array_equal(special.weight.numpy(), [1.0, 3.0])
    np.testing.assert_array_equal(special.history.numpy(), [np.inf, 3.0])


def with_own_scale(optimizer):
    optimizer.loss_scale_factor = 4.0
    return optimizer


@pytest.mark.parametrize(
    ("optimizer", "received"),
    [
        (keras.optimizers.SGD(loss_scale_factor=8.0), r"SGD with loss_scale_factor=8\.0"),
        (keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), "LossScaleOptimizer"),
        (with_own_scale(optimizers.build(Momentum(), 9)), r"Optimizer with loss_scale_factor=4"),
    ],
)
@pytest.mark.parametrize("scale", [SCALE, NoLossScale()])
def test_an_optimizer_with_its_own_loss_scale_is_refused(scale, optimizer, received):
    variable = keras.Variable([1.0])
    with pytest.raises(ValueError, match=f"Expected optimizers without .* Received: {received}"):
        apply_if_finite(scale, scale.init(), [(optimizer, [tf.ones([1])], [variable])])
    assert variable.numpy() == [1.0]


@pytest.mark.parametrize(("value", "applied"), [(np.inf, False), (1.0, True)])
def test_a_step_of_a_keras_optimizer_that_xla_compiles_is_applied_or_skipped(value, applied):
    variable, optimizer = keras.Variable([1.0]), keras.optimizers.Adam(0.1)
    optimizer.build([variable])

    @tf.function(jit_compile=True)
    def step(grad):
        updates = [OptimizerUpdate(optimizer, [grad], [variable])]
        return commit_or_skip([SCALE], [SCALE.init()], updates, [], lowering=XLA).applied

    assert bool(step(tf.constant([value]))) is applied
    assert (variable.numpy().tolist() != [1.0]) is applied
    assert int(optimizer.iterations) == int(applied)
    assert all(np.isfinite(part.numpy()).all() for part in optimizer.variables)


def test_keras_optimizers_are_refused_inside_a_strategy():
    """Keras would add up gradients there that were checked one rank at a time."""
    variable = keras.Variable([1.0])
    groups = [(keras.optimizers.SGD(), [tf.ones([1])], [variable])]
    with (
        tf.distribute.OneDeviceStrategy("cpu:0").scope(),
        pytest.raises(ValueError, match=r"no tf\.distribute strategy .* OneDeviceStrategy"),
    ):
        apply_if_finite(SCALE, SCALE.init(), groups)
    assert variable.numpy() == [1.0]


@pytest.mark.parametrize("form", ["eager", "graph", "xla"])
@pytest.mark.parametrize(("value", "applied"), [(3e38, False), (1e38, True)])
def test_duplicate_rows_are_added_up_before_they_are_checked(form, value, applied):
    table = keras.Variable(tf.zeros([4, 1]))
    optimizer = optimizers.build(Sgd(learning_rate=1.0), 9)
    optimizer.build([table])

    def step(values, rows):
        grads = [tf.IndexedSlices(values, rows, tf.constant([4, 1]))]
        updates = [OptimizerUpdate(optimizer, grads, [table])]
        lowering = XLA if form == "xla" else GRAPH
        return commit_or_skip([SCALE], [SCALE.init()], updates, [], lowering=lowering).applied

    if form != "eager":
        step = tf.function(step, autograph=False, jit_compile=form == "xla")
    given = tf.fill([3, 1], value), tf.constant([2, 0, 2])
    assert bool(step(*given)) is applied
    expected = [[-value], [0], [-2 * value], [0]] if applied else np.zeros([4, 1])
    np.testing.assert_allclose(table.numpy(), expected)

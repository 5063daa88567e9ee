"""The surface of Keras 2's LossScaleOptimizer, and the transaction over its calls."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from ampcore import compat
from ampcore.compat import LossScaleOptimizer

v1 = tf.compat.v1
INF = float("inf")


class Loop:
    """A table and weights, with an optimizer that updates them in two groups."""

    def __init__(self, inner: Any = None, **arguments: Any) -> None:
        self.table, self.weights = tf.Variable(tf.ones([4, 2])), tf.Variable([1.0, 2.0])
        inner = keras.optimizers.Adam(0.1) if inner is None else inner
        self.optimizer = LossScaleOptimizer(inner, **arguments)

    def unscaled(self, table_factor: Any = 1.0, factor: Any = 1.0) -> tuple[list[Any], list[Any]]:
        with tf.GradientTape() as tape:
            looked_up = tf.reduce_sum(tf.gather(self.table, [1, 3, 3]) ** 2) * table_factor
            loss = looked_up + tf.reduce_sum(self.weights**2) * factor
            scaled_loss = self.optimizer.get_scaled_loss(loss)
        table_grad, grad = tape.gradient(scaled_loss, [self.table, self.weights])
        table_grads = self.optimizer.get_unscaled_gradients([table_grad])
        return table_grads, self.optimizer.get_unscaled_gradients([grad])

    def step(self, table_factor: Any = 1.0, factor: Any = 1.0) -> list[Any]:
        table_grads, grads = self.unscaled(table_factor, factor)
        return [
            self.optimizer.apply_gradients(zip(table_grads, [self.table], strict=True)),
            self.optimizer.apply_gradients(zip(grads, [self.weights], strict=True)),
        ]

    def values(self) -> list[Any]:
        variables = [self.table, self.weights, *self.optimizer.variables[:-3]]
        return [np.array(variable) for variable in variables]


def are_equal(values: list[Any], others: list[Any]) -> bool:
    return all(np.array_equal(*pair) for pair in zip(values, others, strict=True))


def test_the_arguments_of_keras_2_have_its_defaults():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD())
    assert optimizer.dynamic is True
    assert optimizer.initial_scale == 2.0**15
    assert optimizer.dynamic_growth_steps == 2000
    assert float(optimizer.loss_scale) == 2.0**15
    assert int(optimizer.dynamic_counter) == 0


def test_a_fixed_scale_has_no_growth_and_no_counter():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(), dynamic=False, initial_scale=1024)
    assert float(optimizer.loss_scale) == optimizer.initial_scale == 1024.0
    assert optimizer.dynamic_growth_steps is None
    assert optimizer.dynamic_counter is None


def test_a_fixed_scale_skips_and_stays():
    loop = Loop(dynamic=False, initial_scale=1024)
    loop.step()
    before = loop.values()
    loop.step(table_factor=INF)
    assert are_equal(loop.values(), before)
    assert float(loop.optimizer.loss_scale) == 1024.0
    assert int(loop.optimizer.skipped_steps) == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({"initial_scale": 2.0**30}, [1.0, 2.0**30]), ({"initial_scale": 0.25}, [0.25, 2.0**24])],
)
def test_an_initial_scale_beyond_the_limits_moves_them(arguments, expected):
    constants = LossScaleOptimizer(keras.optimizers.SGD(), **arguments)._constants
    assert [constants.minimum, constants.maximum] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dynamic": "dynamic"}, "dynamic: expected True or False. Received: 'dynamic'"),
        ({"dynamic": 1024}, "write dynamic=False, initial_scale=1024"),
        ({"dynamic": False}, "initial_scale: expected a number with dynamic=False"),
        ({"initial_scale": "8"}, "initial_scale: expected a number. Received: '8'"),
        ({"dynamic_growth_steps": 1.5}, "dynamic_growth_steps: expected an integer"),
        ({"dynamic_growth_steps": 0}, "growth_interval=0"),
        ({"initial_scale": 0.0}, "minimum=0.0"),
        (
            {"dynamic": False, "initial_scale": 8, "dynamic_growth_steps": 2},
            "dynamic_growth_steps: expected None with dynamic=False. Received: 2",
        ),
        ({"dynamic": False, "initial_scale": 8, "maximum": 2}, "maximum: expected None"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message.replace(".", r"\.")):
        LossScaleOptimizer(keras.optimizers.SGD(), **arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (object, "expected an optimizer of keras, tf_keras or"),
        (
            lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()),
            "Pass its inner_optimizer",
        ),
        (lambda: LossScaleOptimizer(keras.optimizers.SGD()), "Pass its inner_optimizer"),
        (lambda: keras.optimizers.SGD(loss_scale_factor=2.0), "loss_scale_factor=2.0"),
        (lambda: keras.optimizers.SGD(use_ema=True), "without use_ema"),
        (lambda: keras.optimizers.SGD(gradient_accumulation_steps=2), "accumulation_steps=2"),
        (tf_keras.optimizers.Nadam, "legacy.Nadam"),
    ],
)
def test_optimizers_that_cannot_be_wrapped_are_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        LossScaleOptimizer(make())


@pytest.mark.parametrize(
    "make", [keras.optimizers.SGD, tf_keras.optimizers.SGD], ids=["Keras 3", "tf_keras"]
)
def test_an_optimizer_that_needs_tf_2_is_refused_in_a_session_graph(make):
    inner = make()
    with tf.Graph().as_default(), pytest.raises(ValueError, match="in a graph that a session runs"):
        LossScaleOptimizer(inner)


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.Adam(0.25, beta_1=0.5),
        lambda: tf_keras.optimizers.Adam(0.25, beta_1=0.5),
        lambda: tf_keras.optimizers.legacy.Adam(0.25, beta_1=0.5),
    ],
    ids=["Keras 3", "tf_keras", "legacy"],
)
def test_the_configuration_makes_an_equal_optimizer(make):
    optimizer = LossScaleOptimizer(make(), initial_scale=8.0, dynamic_growth_steps=3, maximum=32.0)
    copy = LossScaleOptimizer.from_config(optimizer.get_config())
    assert copy.get_config() == optimizer.get_config()
    assert type(copy.inner_optimizer) is type(optimizer.inner_optimizer)
    assert float(copy.learning_rate) == 0.25
    assert float(copy.beta_1) == 0.5


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(
    "make", [tf_keras.optimizers.Adam, tf_keras.optimizers.legacy.Adam], ids=["new", "legacy"]
)
def test_a_configuration_that_keras_2_has_saved_is_read(make, dynamic):
    original = tf_keras.mixed_precision.LossScaleOptimizer(
        make(0.25), dynamic=dynamic, initial_scale=64
    )
    optimizer = LossScaleOptimizer.from_config(original.get_config())
    assert optimizer.dynamic is dynamic
    assert optimizer.initial_scale == 64.0
    assert type(optimizer.inner_optimizer) is make
    assert float(optimizer.learning_rate) == 0.25


def test_an_optimizer_of_tf_1_has_no_configuration():
    optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(0.1))
    with pytest.raises(NotImplementedError, match="GradientDescentOptimizer"):
        optimizer.get_config()


def test_hyperparameters_pass_through():
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(0.1))
    optimizer.learning_rate = 0.5
    optimizer.beta_1 = 0.75
    assert float(optimizer.inner_optimizer.learning_rate) == float(optimizer.lr) == 0.5
    assert optimizer.inner_optimizer.beta_1 == optimizer.beta_1 == 0.75
    assert int(optimizer.iterations) == 0
    with pytest.raises(AttributeError, match="no attribute 'gamma'"):
        optimizer.gamma  # noqa: B018 - the attribute access is what is tested


def test_the_learning_rate_of_tf_1_can_be_read_and_not_set():
    optimizer = LossScaleOptimizer(v1.train.AdamOptimizer(0.5))
    assert optimizer.learning_rate == 0.5
    with pytest.raises(AttributeError, match="give it a tensor or a function"):
        optimizer.learning_rate = 0.25


def test_a_loss_is_scaled_in_float32_and_may_be_a_function():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(), initial_scale=2.0**17)
    scaled = optimizer.get_scaled_loss(tf.constant(1.5, tf.float16))
    assert (scaled.dtype, float(scaled)) == (tf.float32, 1.5 * 2**17)
    assert float(optimizer.get_scaled_loss(lambda: tf.constant(2.0))()) == 2.0**18


def test_sparse_gradients_stay_sparse_and_none_stays_none():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(), initial_scale=4.0)
    optimizer.get_scaled_loss(tf.constant(1.0))
    sparse = tf.IndexedSlices(tf.fill([2, 3], 8.0), tf.constant([5, 5]), tf.constant([10**9, 3]))
    found, nothing = optimizer.get_unscaled_gradients([sparse, None])
    assert isinstance(found, tf.IndexedSlices)
    assert found.values.numpy().tolist() == [[2.0] * 3] * 2
    assert nothing is None


def test_a_variable_without_gradient_is_left_out():
    loop = Loop()
    _, grads = loop.unscaled()
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        loop.optimizer.apply_gradients([(None, loop.table), (grads[0], loop.weights)])
    assert loop.weights.numpy()[0] < 1.0
    loop.unscaled()
    with pytest.raises(ValueError, match="1 pairs, all without a gradient"):
        loop.optimizer.apply_gradients([(None, loop.table)])


@pytest.mark.parametrize("factors", [(INF, 1.0), (1.0, INF), (1.0, float("nan")), (INF, INF)])
@pytest.mark.parametrize("first_step", [True, False])
def test_an_overflow_in_either_group_skips_both(factors, first_step):
    loop = Loop(initial_scale=8.0)
    loop.optimizer.build([loop.table, loop.weights])
    if not first_step:
        loop.step()
    before = loop.values()
    assert [bool(applied) for applied in loop.step(*factors)] == [False, False]
    assert are_equal(loop.values(), before)
    assert float(loop.optimizer.loss_scale) == 4.0
    assert int(loop.optimizer.skipped_steps) == 1


@pytest.mark.parametrize("library", [keras, tf_keras], ids=["Keras 3", "tf_keras"])
def test_only_applied_steps_advance_the_schedule_and_by_one(library):
    schedule = library.optimizers.schedules.PiecewiseConstantDecay([0, 1], [0.25, 0.125, 0.0625])
    loop = Loop(library.optimizers.SGD(schedule))
    changes = []
    for factor in (1.0, INF, 1.0, INF, 1.0):
        before = loop.weights.numpy()
        loop.step(factor)
        changes.append(float((loop.weights / before)[0]))
    # A step multiplies the weights by 1 - 2 * learning_rate.
    assert changes == [0.5, 1.0, 0.75, 1.0, 0.875]
    assert int(loop.optimizer.iterations) == 3


def test_a_step_with_two_calls_has_one_trace_and_one_update_of_the_scale():
    loop = Loop(initial_scale=8.0, dynamic_growth_steps=2)
    loop.optimizer.build([loop.table, loop.weights])
    step = tf.function(loop.step)
    for factor in (1.0, 1.0, INF, 1.0, 1.0):
        step(tf.constant(factor))
    assert step.experimental_get_tracing_count() == 1
    assert float(loop.optimizer.loss_scale) == 16.0
    assert int(loop.optimizer.iterations) == 4


def test_gradients_of_several_micro_batches_decide_together():
    loop = Loop(initial_scale=8.0)
    loop.optimizer.build([loop.table, loop.weights])
    before = loop.values()
    loop.unscaled(table_factor=INF)
    table_grads, grads = loop.unscaled()
    loop.optimizer.apply_gradients(zip(grads, [loop.weights], strict=True))
    loop.optimizer.apply_gradients(zip(table_grads, [loop.table], strict=True))
    assert are_equal(loop.values(), before)
    assert float(loop.optimizer.loss_scale) == 4.0


def test_a_step_may_be_applied_in_a_branch():
    loop = Loop()

    @tf.function
    def step(apply):
        table_grads, grads = loop.unscaled()
        if apply:
            loop.optimizer.apply_gradients(zip(table_grads, [loop.table], strict=True))
            loop.optimizer.apply_gradients(zip(grads, [loop.weights], strict=True))

    step(tf.constant(False))
    assert loop.weights.numpy().tolist() == [1.0, 2.0]
    step(tf.constant(True))
    assert int(loop.optimizer.iterations) == 1
    assert loop.weights.numpy()[0] < 1.0


def test_unscaling_after_an_update_of_the_step_is_refused():
    loop = Loop()
    table_grads, _ = loop.unscaled()
    loop.optimizer.apply_gradients(zip(table_grads, [loop.table], strict=True))
    with pytest.raises(RuntimeError, match="Unscale all groups first"):
        loop.optimizer.get_unscaled_gradients([tf.ones([2])])


def test_a_strategy_around_the_loop_is_refused():
    loop = Loop()
    _, grads = loop.unscaled()
    with (
        tf.distribute.OneDeviceStrategy("/cpu:0").scope(),
        pytest.raises(RuntimeError, match="Received: OneDeviceStrategy"),
    ):
        loop.optimizer.apply_gradients(zip(grads, [loop.weights], strict=True))


def test_calls_in_another_order_are_refused():
    loop = Loop()
    with pytest.raises(RuntimeError, match=r"get_scaled_loss before it.*Received: no step"):
        loop.optimizer.get_unscaled_gradients([tf.ones([2])])
    loop.optimizer.get_scaled_loss(tf.constant(1.0))
    with pytest.raises(RuntimeError, match=r"gradients of get_unscaled_gradients.*Received: none"):
        loop.optimizer.apply_gradients([(tf.ones([2]), loop.weights)])


def test_a_second_update_of_a_variable_in_a_step_is_refused():
    loop = Loop()
    _, grads = loop.unscaled()
    loop.optimizer.apply_gradients(zip(grads, [loop.weights], strict=True))
    with pytest.raises(RuntimeError, match="a second time since get_scaled_loss"):
        loop.optimizer.apply_gradients(zip(grads, [loop.weights], strict=True))


def test_an_optimizer_is_used_where_it_was_created():
    eager = LossScaleOptimizer(v1.train.GradientDescentOptimizer(0.1))
    with tf.Graph().as_default():
        in_session = LossScaleOptimizer(v1.train.GradientDescentOptimizer(0.1))
        with pytest.raises(RuntimeError, match="where the optimizer was created"):
            eager.get_scaled_loss(tf.constant(1.0))
    with pytest.raises(RuntimeError, match="where the optimizer was created"):
        in_session.get_scaled_loss(tf.constant(1.0))


def test_a_first_group_that_was_changed_to_nan_skips_the_step():
    loop = Loop(initial_scale=8.0)
    table_grads, grads = loop.unscaled()
    loop.optimizer.apply_gradients([(grads[0] * INF, loop.weights)])
    loop.optimizer.apply_gradients(zip(table_grads, [loop.table], strict=True))
    assert loop.weights.numpy().tolist() == [1.0, 2.0]
    assert loop.table.numpy().tolist() == tf.ones([4, 2]).numpy().tolist()
    assert float(loop.optimizer.loss_scale) == 4.0


@pytest.mark.parametrize("compiled", [lambda step: step, tf.function], ids=["eager", "function"])
def test_a_later_group_that_was_changed_to_nan_is_an_error_and_not_applied(compiled):
    loop = Loop()

    def step():
        table_grads, grads = loop.unscaled()
        loop.optimizer.apply_gradients(zip(table_grads, [loop.table], strict=True))
        loop.optimizer.apply_gradients([(grads[0] * INF, loop.weights)])

    with pytest.raises(tf.errors.InvalidArgumentError, match="became inf or NaN after"):
        compiled(step)()
    assert loop.weights.numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.Adam(0.1),
        lambda: tf_keras.optimizers.Adam(0.1),
        lambda: tf_keras.optimizers.legacy.Adam(0.1),
    ],
    ids=["Keras 3", "tf_keras", "legacy"],
)
def test_a_checkpoint_restores_the_scale_and_the_slots_of_all_groups(make, tmp_path):
    loop, other = Loop(make(), initial_scale=8.0), Loop(make(), initial_scale=8.0)
    loop.step()
    loop.step(INF)

    def checkpoint_of(one: Loop) -> Any:
        return tf.train.Checkpoint(optimizer=one.optimizer, table=one.table, weights=one.weights)

    path = checkpoint_of(loop).save(tmp_path / "checkpoint")
    other.optimizer.build([other.table])
    other.optimizer.build([other.weights])
    checkpoint_of(other).restore(path).assert_existing_objects_matched()
    assert float(other.optimizer.loss_scale) == 4.0
    assert int(other.optimizer.skipped_steps) == 1
    loop.step()
    other.step()
    assert are_equal(loop.values(), other.values())


def test_minimize_makes_a_step():
    loop = Loop(initial_scale=8.0)
    loop.optimizer.minimize(lambda: tf.reduce_sum(loop.weights**2), [loop.weights])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(loop.weights**2)
    loop.optimizer.minimize(loss, [loop.weights], tape=tape)
    assert int(loop.optimizer.iterations) == 2
    np.testing.assert_allclose(loop.weights.numpy(), [0.8, 1.8], atol=1e-3)
    with pytest.raises(ValueError, match="tape: expected"):
        loop.optimizer.minimize(loss, [loop.weights])


def test_a_session_counts_the_global_step_once_and_saves_the_scale(tmp_path):
    with tf.Graph().as_default():
        weights = v1.get_variable("weights", initializer=[1.0, 2.0])
        bias = v1.get_variable("bias", initializer=1.0)
        count, factor = v1.train.get_or_create_global_step(), v1.placeholder(tf.float32, [])
        optimizer = LossScaleOptimizer(v1.train.AdamOptimizer(0.1), initial_scale=8.0)
        scaled_loss = optimizer.get_scaled_loss(tf.reduce_sum(weights**2) * factor + bias**2)
        grads = tf.gradients(scaled_loss, [weights, bias])
        first = optimizer.get_unscaled_gradients(grads[:1])
        second = optimizer.get_unscaled_gradients(grads[1:])
        update = optimizer.apply_gradients([(first[0], weights)], global_step=count)
        last = optimizer.apply_gradients([(second[0], bias)], name="update")
        assert isinstance(last, tf.Operation)
        assert last.name == "update"
        saver = v1.train.Saver()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for value in (1.0, INF, 1.0):
                session.run([update, last], {factor: value})
            assert session.run([count, optimizer.loss_scale]) == [2, 4.0]
            path = saver.save(session, str(tmp_path / "model"))
        with v1.Session() as session:
            saver.restore(session, path)
            assert session.run([count, optimizer.loss_scale]) == [2, 4.0]


def test_the_last_update_of_a_session_makes_the_whole_step():
    with tf.Graph().as_default():
        weights = v1.get_variable("weights", initializer=1.0)
        bias = v1.get_variable("bias", initializer=1.0)
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(0.5))
        grads = tf.gradients(optimizer.get_scaled_loss(weights**2 + bias**2), [weights, bias])
        first, second = optimizer.get_unscaled_gradients(grads)
        optimizer.apply_gradients([(first, weights)])
        update = optimizer.apply_gradients([(second, bias)])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(update)
            assert session.run([weights, bias]) == [0.0, 0.0]


@pytest.mark.parametrize(
    "make",
    [v1.train.GradientDescentOptimizer, tf_keras.optimizers.legacy.SGD],
    ids=["TF 1", "legacy"],
)
def test_reference_variables_are_refused_where_a_branch_cannot_update_them(make):
    with tf.Graph().as_default():
        weights = v1.get_variable("weights", initializer=2.0, use_resource=False)
        optimizer = LossScaleOptimizer(make(0.25))
        with pytest.raises(ValueError, match="weights:0, a reference variable"):
            optimizer.minimize(weights**2, [weights])


def test_minimize_makes_a_step_in_a_session():
    with tf.Graph().as_default():
        weights = v1.get_variable("weights", initializer=2.0)
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(0.25))
        update = optimizer.minimize(weights**2, [weights])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(update)
            assert session.run(weights) == 1.0


def test_a_global_step_belongs_to_an_optimizer_of_tf_1():
    loop = Loop()
    _, grads = loop.unscaled()
    with pytest.raises(TypeError, match="global_step with Adam"):
        loop.optimizer.apply_gradients(
            zip(grads, [loop.weights], strict=True), global_step=tf.Variable(0)
        )


def test_embedding_tables_are_split_from_the_other_variables():
    model = keras.Sequential([keras.layers.Embedding(8, 2), keras.layers.Dense(1)])
    model.build([None, 3])
    table, kernel, bias = model.trainable_variables
    own = keras.Variable(np.zeros([4, 2]), name="rows")
    own.is_embedding = True
    tables, others = compat.split_embedding_variables([kernel, table, own, bias])
    assert [id(each) for each in tables] == [id(table), id(own)]
    assert [id(each) for each in others] == [id(kernel), id(bias)]

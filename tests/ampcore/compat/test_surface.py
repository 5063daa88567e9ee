"""Every public name of Keras's LossScaleOptimizers works, or its error says what to write."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from ampcore.compat import LossScaleOptimizer
from ampcore.compat.callable_values import CallableTensor

v1 = tf.compat.v1
K, T = keras.optimizers, tf_keras.optimizers
TfKerasOptimizer = tf_keras.mixed_precision.LossScaleOptimizer
INF = float("inf")
OF_ADAM = ("beta_1", "beta_2", "epsilon", "amsgrad")
"""Hyper-parameters, which Adam of TF 1 does not show."""
PEERS = {
    "tf_keras legacy": (lambda: T.legacy.Adam(0.1), lambda: TfKerasOptimizer(T.legacy.Adam(0.1))),
    "tf_keras": (lambda: T.Adam(0.1), lambda: TfKerasOptimizer(T.Adam(0.1))),
    "Keras 3": (lambda: K.Adam(0.1), lambda: K.LossScaleOptimizer(K.Adam(0.1))),
}


@pytest.mark.parametrize("theirs", [theirs for _, theirs in PEERS.values()], ids=PEERS)
@pytest.mark.parametrize(
    "inner",
    [*(inner for inner, _ in PEERS.values()), lambda: v1.train.AdamOptimizer(0.1)],
    ids=[*PEERS, "TF 1"],
)
def test_every_public_name_works_or_its_error_says_what_to_write(inner, theirs):
    ours, weight = LossScaleOptimizer(inner()), tf.Variable([1.0])
    ours.build([weight])
    theirs = theirs()
    if hasattr(theirs, "build"):
        theirs.build([weight])
    names = [name for name in dir(theirs) if not name.startswith("_") and hasattr(theirs, name)]
    assert "get_config" in names
    for name in names:
        if hasattr(ours, name) or name in OF_ADAM:
            continue
        with pytest.raises(AttributeError, match=f"has no {name}.* Write: ") as error:
            getattr(ours, name)
        assert error.value.args[0].endswith(".")


def stepped(inner: Any, *factors: float) -> tuple[LossScaleOptimizer, Any]:
    optimizer, weight = LossScaleOptimizer(inner, initial_scale=64.0), tf.Variable([1.0, 2.0])
    for factor in factors:
        optimizer.minimize(lambda factor=factor: tf.reduce_sum(weight**2) * factor, [weight])
    return optimizer, weight


INNER = pytest.mark.parametrize(
    "inner", [T.legacy.Adam, T.Adam, K.Adam], ids=["legacy", "tf_keras", "Keras 3"]
)


@INNER
def test_variables_are_an_attribute_and_a_method(inner):
    optimizer, _ = stepped(inner(0.1), 1.0, INF)
    assert optimizer.variables() == optimizer.variables == optimizer.weights
    assert int(optimizer.variables()[0]) == int(optimizer.iterations) == 1
    assert [float(value) for value in optimizer.variables[-3:]] == [32.0, 0.0, 1.0]


@INNER
def test_weights_can_be_moved_to_another_optimizer_with_the_scale(inner):
    optimizer, weight = stepped(inner(0.1), 1.0, INF, 1.0)
    other, other_weight = stepped(inner(0.1), 1.0)
    other.set_weights(optimizer.get_weights())
    other_weight.assign(weight)
    assert [float(value) for value in other.state] == [32.0, 1.0, 0.0, 0.0]
    assert int(other.skipped_steps) == 1
    for one, value in ((optimizer, weight), (other, other_weight)):
        one.minimize(lambda value=value: tf.reduce_sum(value**2), [value])
    np.testing.assert_array_equal(other_weight, weight)


def test_weights_of_keras_2_are_taken_with_a_warning_that_names_the_scale():
    optimizer, weight = stepped(T.legacy.Adam(0.1), 1.0, 1.0, INF)
    theirs = TfKerasOptimizer(T.legacy.Adam(0.1))
    theirs.minimize(lambda: tf.reduce_sum(weight**2), [weight])
    with pytest.warns(UserWarning, match="the list has no loss scale"):
        optimizer.set_weights(theirs.get_weights())
    assert int(optimizer.iterations) == 1
    assert float(optimizer.loss_scale) == 32.0


def test_weights_that_do_not_fit_are_refused():
    optimizer = LossScaleOptimizer(K.Adam(0.1))
    with pytest.raises(
        ValueError, match=r"expected 5 arrays, or the 2 .* Received: 7\. Call build"
    ):
        optimizer.set_weights([0.0] * 7)


def test_a_scale_that_a_loop_has_set_to_zero_is_the_smallest_one():
    optimizer, weight = stepped(T.legacy.Adam(0.1), 1.0)
    for variable in optimizer.variables():
        variable.assign(tf.zeros_like(variable))
    assert float(optimizer.loss_scale) == 1.0
    optimizer.minimize(lambda: tf.reduce_sum(weight**2), [weight])
    assert int(optimizer.skipped_steps) == 0


@pytest.mark.parametrize("inner", [T.legacy.Adam, T.Adam], ids=["legacy", "tf_keras"])
def test_iterations_can_be_replaced_before_the_first_step(inner):
    optimizer = LossScaleOptimizer(inner(0.1))
    count = tf.Variable(7, dtype=tf.int64)
    optimizer.iterations = count
    assert optimizer.iterations is count
    weight = tf.Variable([1.0])
    optimizer.minimize(lambda: weight**2, [weight])
    assert int(optimizer.iterations) == 8


def test_an_optimizer_of_keras_3_says_how_iterations_are_set():
    optimizer = LossScaleOptimizer(K.Adam(0.1))
    with pytest.raises(AttributeError, match=r"Write: optimizer\.iterations\.assign\(value\)"):
        optimizer.iterations = 7
    optimizer.iterations.assign(7)
    assert int(optimizer.iterations) == 7


def test_an_optimizer_of_tf_1_says_how_it_counts():
    with pytest.raises(AttributeError, match="global_step="):
        LossScaleOptimizer(v1.train.AdamOptimizer(0.1)).iterations  # noqa: B018


@pytest.mark.parametrize("other", [LossScaleOptimizer, TfKerasOptimizer])
@pytest.mark.parametrize("inner", [T.Adam, T.legacy.Adam])
def test_an_optimizer_is_wrapped_once(inner, other):
    optimizer = inner(0.1)
    other(optimizer)
    with pytest.raises(ValueError, match="already wrapped by one"):
        LossScaleOptimizer(optimizer)


def test_an_optimizer_that_is_wrapped_here_is_refused_by_tf_keras():
    optimizer = T.Adam(0.1)
    LossScaleOptimizer(optimizer)
    with pytest.raises(ValueError, match="already wrapped"):
        TfKerasOptimizer(optimizer)


def test_a_fixed_scale_needs_no_variable_in_a_graph():
    with tf.Graph().as_default(), v1.Session() as session:
        optimizer = LossScaleOptimizer(T.legacy.SGD(), dynamic=False, initial_scale=4.0)
        scaled = optimizer.get_scaled_loss(tf.constant(2.0))
        assert session.run([optimizer.loss_scale, scaled]) == [4.0, 8.0]


@pytest.mark.parametrize("multiplier", [2.0, 2])
def test_a_dynamic_configuration_of_tensorflow_2_3_is_read(multiplier):
    constants = {"initial_loss_scale": 8.0, "increment_period": 3, "multiplier": multiplier}
    config = {
        "name": "LossScaleOptimizer",
        "optimizer": {"class_name": "SGD", "config": {"learning_rate": 0.25, "decay": 0.0}},
        "loss_scale": {"class_name": "DynamicLossScale", "config": constants},
    }
    optimizer = LossScaleOptimizer.from_config(config)
    assert (optimizer.dynamic, optimizer.initial_scale) == (True, 8.0)
    assert optimizer.dynamic_growth_steps == 3
    assert float(optimizer.learning_rate) == 0.25
    assert "optimizer" in config, "the argument is left as it is"


def test_a_fixed_configuration_of_tensorflow_2_3_is_read():
    config = {
        "optimizer": {"class_name": "SGD", "config": {"learning_rate": 0.25, "decay": 0.0}},
        "loss_scale": {"class_name": "FixedLossScale", "config": {"loss_scale_value": 8.0}},
    }
    optimizer = LossScaleOptimizer.from_config(config)
    assert (optimizer.dynamic, optimizer.initial_scale) == (False, 8.0)


@pytest.mark.parametrize(
    ("loss_scale", "message"),
    [
        (
            {
                "class_name": "DynamicLossScale",
                "config": {"initial_loss_scale": 8.0, "increment_period": 3, "multiplier": 4.0},
            },
            "multiplier 2. Received: multiplier=4.0",
        ),
        ({"class_name": "MyLossScale", "config": {}}, "Received: MyLossScale"),
    ],
)
def test_a_loss_scale_of_tensorflow_2_3_that_does_not_exist_here_is_named(loss_scale, message):
    optimizer = {"class_name": "SGD", "config": {"learning_rate": 0.25, "decay": 0.0}}
    with pytest.raises(ValueError, match=message):
        LossScaleOptimizer.from_config({"optimizer": optimizer, "loss_scale": loss_scale})


def test_a_configuration_of_keras_3_is_read():
    theirs = K.LossScaleOptimizer(K.SGD(0.25), initial_scale=8.0, dynamic_growth_steps=3)
    optimizer = LossScaleOptimizer.from_config(theirs.get_config() | {"weight_decay": None})
    assert (optimizer.initial_scale, optimizer.dynamic_growth_steps) == (8.0, 3)
    with pytest.raises(ValueError, match="clipnorm: expected it on the `inner_optimizer`"):
        LossScaleOptimizer.from_config(theirs.get_config() | {"clipnorm": 1.0})


@pytest.mark.parametrize("inner", [T.SGD, T.legacy.SGD], ids=["new", "legacy"])
def test_tf_keras_reads_a_configuration_with_its_limits(inner):
    optimizer = LossScaleOptimizer(inner(0.25), initial_scale=8.0, dynamic_growth_steps=3)
    theirs = type(TfKerasOptimizer(inner(0.25))).from_config(optimizer.get_config())
    assert (theirs.initial_scale, theirs.dynamic_growth_steps) == (8.0, 3)


def halve(pairs: Any) -> list[Any]:
    return [(grad / 2.0, variable) for grad, variable in pairs]


class Halving(T.SGD):
    def aggregate_gradients(self, grads_and_vars: Any) -> list[Any]:
        return halve(grads_and_vars)


@pytest.mark.parametrize(
    "inner",
    [lambda: T.legacy.SGD(1.0, gradient_aggregator=halve), lambda: Halving(1.0)],
    ids=["gradient_aggregator", "aggregate_gradients"],
)
def test_an_aggregation_of_the_inner_optimizer_is_called_before_the_check(inner):
    optimizer, weight = stepped(inner())
    optimizer.minimize(lambda: tf.reduce_sum(weight), [weight])
    assert weight.numpy().tolist() == [0.5, 1.5]
    grads = optimizer.compute_gradients(lambda: tf.reduce_sum(weight), [weight])
    optimizer.apply_gradients(grads, experimental_aggregate_gradients=False)
    assert weight.numpy().tolist() == [-0.5, 0.5]


def test_an_aggregation_that_returns_nan_skips_the_step():
    def poison(pairs: Any) -> list[Any]:
        return [(grad * float("nan"), variable) for grad, variable in pairs]

    optimizer, weight = stepped(T.legacy.SGD(1.0, gradient_aggregator=poison), 1.0)
    assert weight.numpy().tolist() == [1.0, 2.0]
    assert float(optimizer.loss_scale) == 32.0


def test_gradients_of_a_graph_are_unscaled():
    with tf.Graph().as_default(), v1.Session() as session:
        weight, unused = v1.get_variable("weight", initializer=3.0), v1.get_variable("unused", [])
        optimizer = LossScaleOptimizer(T.legacy.SGD(0.25), initial_scale=8.0)
        [grad] = optimizer.get_gradients(weight**2, [weight])
        [update] = LossScaleOptimizer(T.legacy.SGD(0.25)).get_updates(weight**2, [weight])
        with pytest.raises(ValueError, match=r"depends on\. Received: \['unused:0'\]"):
            optimizer.get_gradients(weight**2, [weight, unused])
        session.run(v1.global_variables_initializer())
        assert session.run(grad) == 6.0
        session.run(update)
        assert session.run(weight) == 1.5


def test_gradients_of_a_tensor_need_a_graph():
    with pytest.raises(RuntimeError, match=r"write compute_gradients\(loss, variables, tape\)"):
        LossScaleOptimizer(T.legacy.SGD()).get_gradients(tf.constant(1.0), [])


def test_minimize_takes_functions_of_variables_and_factors_of_losses():
    optimizer, weight = stepped(T.legacy.SGD(1.0))
    factors = tf.constant([1.0, 3.0])
    optimizer.minimize(lambda: weight * 1.0, lambda: [weight], grad_loss=factors)
    assert weight.numpy().tolist() == [0.0, -1.0]
    with pytest.raises(ValueError, match="var_list: expected the variables"):
        optimizer.minimize(lambda: tf.reduce_sum(weight))


OPERATIONS = {
    "call": lambda scale: scale(),
    "convert": tf.convert_to_tensor,
    "multiply": lambda scale: 2.0 * scale / 2.0,
    "cast": lambda scale: tf.cast(scale, tf.float64),
    "stack": lambda scale: tf.reduce_mean([scale, scale]),
    "where": lambda scale: tf.where(scale > 1.0, scale, 0.0),
    "cond": lambda scale: tf.cond(scale > 1.0, lambda: scale, lambda: 0.0 * scale),
    "argument": tf.function(lambda scale: scale * 1.0),
    "keras": lambda scale: keras.ops.add(scale, 0.0),
    "returned": lambda scale: scale,
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("compiled", [lambda function: function, tf.function], ids=["eager", "fn"])
def test_the_loss_scale_is_a_tensor_for_operations_and_can_be_called(operation, compiled):
    optimizer = LossScaleOptimizer(K.SGD(), initial_scale=8.0)
    assert float(compiled(lambda: operation(optimizer.loss_scale))()) == 8.0


def test_the_loss_scale_is_a_number_for_python_and_numpy():
    scale = LossScaleOptimizer(K.SGD(), initial_scale=8.0).loss_scale
    assert isinstance(scale, CallableTensor)
    assert (float(scale), int(scale), bool(scale), f"{scale:.1f}") == (8.0, 8, True, "8.0")
    assert scale.numpy() == np.asarray(scale) == 8.0
    assert bool(scale == 8.0)
    assert (scale.dtype, scale.shape.rank, tf.is_tensor(scale)) == (tf.float32, 0, True)
    assert str(scale) == str(tf.constant(8.0))
    with pytest.raises(AttributeError, match="no attribute"):
        scale.missing  # noqa: B018


def test_the_loss_scale_as_an_argument_does_not_trace_a_function_again():
    optimizer, weight = stepped(K.SGD(0.1))
    function = tf.function(lambda scale: scale * 2.0)
    for factor in (1.0, INF, 1.0):
        optimizer.minimize(lambda factor=factor: tf.reduce_sum(weight) * factor, [weight])
        assert float(function(optimizer.loss_scale)) == 2.0 * float(optimizer.loss_scale)
    assert function.experimental_get_tracing_count() == 1


def test_options_that_the_inner_optimizer_gets_later_are_refused_too():
    optimizer, weight = stepped(K.SGD(0.1))
    optimizer.loss_scale_factor = 2.0
    with pytest.raises(ValueError, match=r"loss_scale_factor=2\.0"):
        optimizer.minimize(lambda: tf.reduce_sum(weight), [weight])

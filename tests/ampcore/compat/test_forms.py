"""One sequence of steps makes the same decisions in TF 1, in TF 2 and with the plain values."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from ampcore import DynamicLossScale, apply_if_finite
from ampcore.compat import LossScaleOptimizer

INF, NAN = float("inf"), float("nan")
FACTORS = [
    (1, 1),
    (INF, 1),
    (1, 1),
    (1, 1),
    (1, NAN),
    (INF, NAN),
    (1, -INF),
    (1, 1),
    (1, 1),
    (1, 1),
]
"""For each step what the losses of the table and of the weights are multiplied by."""
TABLE = np.arange(12, dtype=np.float32).reshape(6, 2) / 8
WEIGHTS = np.array([0.5, -2.0], np.float32)
ROWS = [0, 2, 2]
RATE = 0.125
SCALE = {"initial_scale": 8.0, "dynamic_growth_steps": 2, "minimum": 2.0, "maximum": 16.0}

v1 = tf.compat.v1


class Step(NamedTuple):
    """What a step left behind."""

    scale: float
    good_steps: int
    skipped: int
    table: Any
    weights: Any


def loss_of(table: Any, weights: Any, table_factor: Any, weights_factor: Any) -> Any:
    looked_up = tf.reduce_sum(tf.gather(table, tf.constant(ROWS)) ** 2)
    return looked_up * table_factor + tf.reduce_sum(weights**2) * weights_factor


def plain_steps() -> Iterator[Step]:
    """The value objects alone, with one group of gradients."""
    table, weights = tf.Variable(TABLE), tf.Variable(WEIGHTS)
    loss_scale = DynamicLossScale(initial=8.0, growth_interval=2, minimum=2.0, maximum=16.0)
    state, optimizer, skipped = loss_scale.init(), keras.optimizers.SGD(RATE), 0
    for factors in FACTORS:
        with tf.GradientTape() as tape:
            loss = loss_scale.scale(state, loss_of(table, weights, *factors))
        variables = [table, weights]
        grads = loss_scale.unscale(state, tape.gradient(loss, variables))
        state, applied = apply_if_finite(loss_scale, state, [(optimizer, grads, variables)])
        skipped += not applied
        counts = int(state.good_steps), skipped
        yield Step(float(state.scale), *counts, table.numpy(), weights.numpy())


def custom_loop(compiled: Callable[[Any], Any], make: Callable[[float], Any]) -> Iterator[Step]:
    """The published loop of TF 2."""
    table, weights = tf.Variable(TABLE), tf.Variable(WEIGHTS)
    optimizer = LossScaleOptimizer(make(RATE), **SCALE)

    def step(table_factor: Any, weights_factor: Any) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(table, weights, table_factor, weights_factor)
            scaled_loss = optimizer.get_scaled_loss(loss)
        table_grad, grad = tape.gradient(scaled_loss, [table, weights])
        table_grads = optimizer.get_unscaled_gradients([table_grad])
        grads = optimizer.get_unscaled_gradients([grad])
        assert isinstance(table_grads[0], tf.IndexedSlices)
        optimizer.apply_gradients(zip(table_grads, [table], strict=True))
        optimizer.apply_gradients(zip(grads, [weights], strict=True))

    step = compiled(step)
    for factors in FACTORS:
        step(*(tf.constant(float(factor)) for factor in factors))
        counts = int(optimizer.dynamic_counter), int(optimizer.skipped_steps)
        yield Step(float(optimizer.loss_scale), *counts, table.numpy(), weights.numpy())


def session_loop(make: Callable[[float], Any], *, use_resource: bool = True) -> Iterator[Step]:
    """The published loop of TF 1."""
    with tf.Graph().as_default():
        table = v1.get_variable("table", initializer=TABLE, use_resource=use_resource)
        weights = v1.get_variable("weights", initializer=WEIGHTS, use_resource=use_resource)
        factors = [v1.placeholder(tf.float32, []) for _ in range(2)]
        optimizer = LossScaleOptimizer(make(RATE), **SCALE)
        loss = loss_of(table, weights, *factors)
        table_grad, grad = tf.gradients(optimizer.get_scaled_loss(loss), [table, weights])
        table_grads = optimizer.get_unscaled_gradients([table_grad])
        grads = optimizer.get_unscaled_gradients([grad])
        assert isinstance(table_grads[0], tf.IndexedSlices)
        updates = [
            optimizer.apply_gradients(zip(table_grads, [table], strict=True)),
            optimizer.apply_gradients(zip(grads, [weights], strict=True)),
        ]
        with tf.control_dependencies(updates):
            loss = tf.identity(loss)
        counts = [optimizer.loss_scale, optimizer.dynamic_counter, optimizer.skipped_steps]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for values in FACTORS:
                session.run(loss, dict(zip(factors, values, strict=True)))
                yield Step(*session.run([*counts, table, weights]))


def session_loop_of_1_15(make: Callable[[float], Any]) -> Iterator[Step]:
    """With the variables and the branches that TensorFlow 1.15 made by default."""
    v1.disable_control_flow_v2()
    try:
        yield from session_loop(make, use_resource=False)
    finally:
        v1.enable_control_flow_v2()


def sgd_of_tf1(rate: float) -> Any:
    return v1.train.GradientDescentOptimizer(rate)


FORMS = {
    "eager": partial(custom_loop, lambda step: step, keras.optimizers.SGD),
    "function": partial(custom_loop, tf.function, keras.optimizers.SGD),
    "xla": partial(custom_loop, tf.function(jit_compile=True), keras.optimizers.SGD),
    "function tf_keras": partial(custom_loop, tf.function, tf_keras.optimizers.SGD),
    "function legacy": partial(custom_loop, tf.function, tf_keras.optimizers.legacy.SGD),
    "function TF 1": partial(custom_loop, tf.function, sgd_of_tf1),
    "session": partial(session_loop, sgd_of_tf1),
    "session as of 1.15": lambda: session_loop_of_1_15(sgd_of_tf1),
    "session legacy": partial(session_loop, tf_keras.optimizers.legacy.SGD),
}


@pytest.fixture(scope="module")
def plain() -> list[Step]:
    return list(plain_steps())


def test_the_sequence_skips_grows_and_reaches_both_limits(plain):
    assert [step.skipped for step in plain] == [0, 1, 1, 1, 2, 3, 4, 4, 4, 4]
    assert [step.scale for step in plain] == [8, 4, 4, 8, 4, 2, 2, 2, 4, 4]


@pytest.mark.parametrize("form", FORMS)
def test_a_form_makes_the_same_decisions_in_every_step(form, plain):
    for number, (expected, step) in enumerate(zip(plain, FORMS[form](), strict=True)):
        assert step[:3] == expected[:3], number
        np.testing.assert_allclose(step.table, expected.table, rtol=1e-6)
        np.testing.assert_allclose(step.weights, expected.weights, rtol=1e-6)


def test_a_skipped_step_keeps_every_bit_of_the_weights():
    steps = list(session_loop(sgd_of_tf1))
    for before, after in pairwise(steps):
        if after.skipped > before.skipped:
            assert np.array_equal(before.table, after.table)
            assert np.array_equal(before.weights, after.weights)

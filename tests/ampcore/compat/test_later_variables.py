"""An optimizer that updates two groups of variables in turn does the same as with all at once."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore import JobSpec
from ampcore.compat import LossScaleOptimizer
from ampcore.compat.later_variables import build_for_later_variables
from ampcore.optimizers.builder import build
from tests.ampcore.compat.optimizers import OPTIMIZERS, K, T


def make_variables() -> list[Any]:
    """A matrix, a vector and a table, in three groups."""
    shapes = {"matrix": [4, 3], "bias": [3], "table": [5, 2]}
    return [
        keras.Variable(
            np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape), name=name
        )
        for name, shape in shapes.items()
    ]


def train(make: Any, groups: list[list[int]]) -> tuple[list[Any], int]:
    """The values of all variables after four steps, and the number of the optimizer's variables."""
    variables = make_variables()
    optimizer = LossScaleOptimizer(make(), initial_scale=4.0)
    for number in range(1, 5):
        optimizer.get_scaled_loss(tf.constant(1.0))
        grads = optimizer.get_unscaled_gradients(
            [tf.cos(variable.value * number) * 4.0 for variable in variables]
        )
        for group in groups:
            optimizer.apply_gradients([(grads[index], variables[index]) for index in group])
    return [variable.numpy() for variable in variables], len(optimizer.variables)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_three_groups_are_updated_as_one(name):
    found, count = train(OPTIMIZERS[name], [[0], [1], [2]])
    expected, expected_count = train(OPTIMIZERS[name], [[0, 1, 2]])
    assert count == expected_count
    for values, others in zip(found, expected, strict=True):
        assert np.array_equal(values, others)


def test_the_optimizers_of_ampcore_are_updated_as_one():
    def make() -> Any:
        spec = JobSpec.parse(
            {"model": {"kind": "mlp", "hidden": [4]}, "data": {"kind": "digits", "batch_size": 4}}
        )
        return build(spec.optimizer, total_steps=10)

    found, count = train(make, [[0], [1], [2]])
    expected, expected_count = train(make, [[0, 1, 2]])
    assert count == expected_count
    for values, others in zip(found, expected, strict=True):
        assert np.array_equal(values, others)


def train_in_session(groups: list[list[int]], *, use_resource: bool) -> list[Any]:
    """The values after four steps of the Adam of TF 1 in a session; the second one is skipped."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        variables = [
            v1.get_variable(f"v{number}", initializer=np.float32(value), use_resource=use_resource)
            for number, value in enumerate([0.5, -1.0, 2.0])
        ]
        factor = v1.placeholder(tf.float32, [])
        optimizer = LossScaleOptimizer(v1.train.AdamOptimizer(0.1), initial_scale=4.0)
        loss = tf.add_n([variable**2 for variable in variables]) * factor
        grads = optimizer.get_unscaled_gradients(
            tf.gradients(optimizer.get_scaled_loss(loss), variables)
        )
        updates = [
            optimizer.apply_gradients([(grads[index], variables[index]) for index in group])
            for group in groups
        ]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for value in (1.0, float("nan"), 1.0, 1.0):
                session.run(updates, {factor: value})
            return list(session.run(variables))


@pytest.mark.parametrize("use_resource", [True, False], ids=["resources", "references"])
def test_three_groups_of_a_session_are_updated_as_one(use_resource):
    tf.compat.v1.disable_control_flow_v2()  # which reference variables need
    try:
        found = train_in_session([[0], [1], [2]], use_resource=use_resource)
        assert found == train_in_session([[0, 1, 2]], use_resource=use_resource)
    finally:
        tf.compat.v1.enable_control_flow_v2()


@pytest.mark.parametrize("make", [lambda: K.Adam(0.1), lambda: T.Adam(0.1)], ids=["3", "tf_keras"])
def test_slots_from_before_stay_the_same_objects(make):
    first, second, _ = (variable.value for variable in make_variables())
    optimizer = make()
    build_for_later_variables(optimizer, [first])
    before = list(optimizer.variables)
    build_for_later_variables(optimizer, [second])
    after = list(optimizer.variables)
    assert [id(variable) for variable in after[: len(before)]] == [id(each) for each in before]
    assert len(after) == len(before) + 2
    build_for_later_variables(optimizer, [second, first])
    assert len(optimizer.variables) == len(after)

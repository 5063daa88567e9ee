"""An update bypasses the part of Keras that would add up gradients over ranks again."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore.optimizers.optimizer import Optimizer
from ampcore.optimizers.update_rules import UpdateScalars
from ampcore.precision import DynamicLossScale
from ampspec.models.model import Mlp
from ampspec.objectives.optimizer import Adam, AdamW, Momentum, RmsProp, Sgd

SPECS = [
    Sgd(learning_rate=0.1),
    Momentum(learning_rate=0.05, nesterov=True),
    Adam(learning_rate=0.01, ema=0.9),
    AdamW(learning_rate=0.01),
    RmsProp(learning_rate=0.01),
]


@pytest.fixture
def trained(make_step, make_task, make_loop, values):
    """The weights, slots and averages after five steps, of which one is skipped."""

    def run(spec, engine):
        task = make_task(Mlp(hidden=(16,)))
        made = make_loop(make_step(DynamicLossScale(), task=task, optimizer=spec), engine, bad=[2])
        assert made.run(0, 5)[:, 2].tolist() == [0, 0, 1, 0, 0]
        return values(made.step)

    return run


@pytest.fixture
def through_keras(monkeypatch):
    """Lets ampcore's optimizers update variables by way of Keras, as its own optimizers do."""

    def update(self, grads, variables, rate):
        updates, rate = tf.convert_to_tensor(self.iterations), tf.cast(rate, tf.float32)
        scalars = UpdateScalars(updates, rate, self.rule.corrections(updates, rate), self._applied)
        keras.optimizers.Optimizer._backend_update_step(self, grads, variables, scalars)

    def use():
        monkeypatch.setattr(Optimizer, "_backend_update_step", update)

    return use


ADAM = SPECS[2]


@pytest.mark.parametrize(
    ("spec", "engine"),
    [*((spec, "graph") for spec in SPECS), (ADAM, "xla_loop")],
    ids=lambda value: getattr(value, "kind", value),
)
def test_an_update_equals_one_through_keras_bit_for_bit(trained, through_keras, spec, engine):
    own = trained(spec, engine)
    through_keras()
    np.testing.assert_equal(trained(spec, engine), own)


def test_keras_does_not_reduce_the_gradients_again(trained, through_keras, monkeypatch):
    calls = []

    def recorded(self, pairs):
        calls.append(pairs)
        return pairs

    monkeypatch.setattr(Optimizer, "_all_reduce_sum_gradients", recorded)
    trained(SPECS[0], "graph")
    assert not calls
    through_keras()
    trained(SPECS[0], "graph")
    assert calls

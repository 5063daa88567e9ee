import keras
import numpy as np
import pytest

from ampcore.spec.availability import OPTIMIZERS
from ampcore.spec.optimizer import Adam, AdamW, Momentum, RmsProp, Sgd
from ampcore.train import optimizers


def test_a_spec_may_name_exactly_the_optimizers_that_can_be_built():
    assert set(optimizers.OPTIMIZERS) == set(OPTIMIZERS)


@pytest.mark.parametrize(
    ("spec", "config"),
    [
        (Sgd(learning_rate=0.5), {"learning_rate": 0.5, "momentum": 0.0}),
        (Momentum(), {"learning_rate": 0.01, "momentum": 0.9, "nesterov": False}),
        (Momentum(nesterov=True), {"nesterov": True}),
        (Adam(beta_1=0.8), {"beta_1": 0.8, "beta_2": 0.999, "epsilon": 1e-7}),
        (AdamW(weight_decay=0.1), {"weight_decay": 0.1}),
        (RmsProp(rho=0.5, momentum=0.1), {"rho": 0.5, "momentum": 0.1}),
    ],
)
def test_every_field_reaches_the_optimizer(spec, config):
    found = optimizers.build(spec).get_config()
    assert {name: found[name] for name in config} == pytest.approx(config)


def test_clipping_is_not_left_to_keras():
    config = optimizers.build(Adam(clip_norm=1.0, clip_value=1.0)).get_config()
    assert config["clipnorm"] is config["clipvalue"] is config["global_clipnorm"] is None


@pytest.mark.parametrize(
    ("spec", "golden"),
    [
        (Sgd(learning_rate=0.1), [0.95, 1.9, 0.9, 1.8]),
        (Momentum(learning_rate=0.1), [0.95, 1.9, 0.855, 1.71]),
        (Adam(learning_rate=0.1), [0.9, 1.9, 0.8, 1.8]),
        (AdamW(learning_rate=0.1, weight_decay=0.5), [0.85, 1.8, 0.7075, 1.61]),
        (RmsProp(learning_rate=0.1, rho=0.75), [0.8, 1.8, 0.648814, 1.648814]),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_two_steps_move_the_weights_as_worked_out_by_hand(spec, golden):
    weights, optimizer = keras.Variable([1.0, 2.0]), optimizers.build(spec)
    moved = []
    for _ in range(2):
        optimizer.apply([np.array([0.5, 1.0], np.float32)], [weights])
        moved += weights.numpy().tolist()
    assert moved == pytest.approx(golden, rel=1e-4)

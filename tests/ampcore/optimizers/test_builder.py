from typing import get_args

import keras
import numpy as np
import pytest

from ampcore import optimizers
from ampcore.optimizers import update_rules
from ampspec.objectives.optimizer import (
    Adam,
    AdamW,
    Constant,
    Momentum,
    OptimizerSpec,
    PackageOptimizer,
    RmsProp,
    Sgd,
)


def test_a_spec_may_name_exactly_the_optimizers_that_can_be_built():
    specs = set(get_args(get_args(OptimizerSpec)[0])) - {PackageOptimizer}  # built by the package
    assert set(optimizers.RULES) == {spec.model_fields["kind"].default for spec in specs}


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        (Sgd(momentum=0.5, nesterov=True), update_rules.Sgd(momentum=0.5, nesterov=True)),
        (Momentum(), update_rules.Sgd(momentum=0.9)),
        (Adam(beta_1=0.8, beta_2=0.9, epsilon=1e-3), update_rules.Adam(0.8, 0.9, 1e-3)),
        (AdamW(beta_1=0.8), update_rules.Adam(beta_1=0.8)),
        (RmsProp(rho=0.5, momentum=0.1, epsilon=1e-3), update_rules.RmsProp(0.5, 0.1, 1e-3)),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_the_update_rule_has_the_constants_of_the_spec(spec, rule):
    assert optimizers.build(spec, 10).rule == rule


def test_the_optimizer_has_the_learning_rate_weight_decay_and_ema_of_the_spec():
    built = optimizers.build(AdamW(learning_rate=0.5, weight_decay=0.1, ema=0.9), 10)
    assert (float(built.learning_rate), built.weight_decay, built.ema) == (0.5, 0.1, 0.9)


def test_the_optimizer_itself_does_not_clip():
    built = optimizers.build(Adam(clip_norm=1.0, clip_value=1.0), 10)
    assert built.clipnorm is built.clipvalue is built.global_clipnorm is None


@pytest.mark.parametrize(
    ("spec", "golden"),
    [
        (Sgd(learning_rate=0.1), [0.95, 1.9, 0.9, 1.8]),
        (Momentum(learning_rate=0.1), [0.95, 1.9, 0.855, 1.71]),
        (Adam(learning_rate=0.1), [0.9, 1.9, 0.8, 1.8]),
        (AdamW(learning_rate=0.1, weight_decay=0.5), [0.85, 1.8, 0.7075, 1.61]),
        (RmsProp(learning_rate=0.1, rho=0.75), [0.8, 1.8, 0.648814, 1.648814]),
        # A tenth of the rate in the first step, all of it in the second.
        (
            Sgd(learning_rate=0.1, schedule=Constant(warmup_steps=2)),
            [0.975, 1.95, 0.925, 1.85],
        ),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_two_steps_change_the_weights_to_the_golden_values(spec, golden):
    weights, optimizer = keras.Variable([1.0, 2.0]), optimizers.build(spec, 10)
    moved = []
    for _ in range(2):
        optimizer.apply([np.array([0.5, 1.0], np.float32)], [weights])
        moved += weights.numpy().tolist()
    assert moved == pytest.approx(golden, rel=1e-4)


def model():
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4, name="hidden")(inputs)
    return keras.Model(inputs, keras.layers.Dense(2, name="predictions")(hidden))


def test_the_variables_have_the_same_paths_in_every_build():
    def paths():
        optimizer = optimizers.build(Adam(ema=0.9), 10)
        optimizer.build(model().trainable_variables)
        return [variable.path for variable in optimizer.variables]

    first = paths()
    assert paths() == first
    assert first[:6] == [
        "adam/iteration",
        "adam/learning_rate",
        "adam/hidden.kernel.momentum",
        "adam/hidden.kernel.velocity",
        "adam/hidden.bias.momentum",
        "adam/hidden.bias.velocity",
    ]


def test_no_two_variables_share_a_path():
    optimizer = optimizers.build(Adam(ema=0.9), 10)
    # Their paths differ by where the slash is.
    with keras.name_scope("a"):
        inner = keras.Variable([1.0], name="b_kernel")
    with keras.name_scope("a_b"):
        outer = keras.Variable([1.0], name="kernel")
    optimizer.build([inner, outer])
    paths = [variable.path for variable in optimizer.variables]
    assert len(set(paths)) == len(paths)


def test_the_optimizers_of_two_networks_share_no_variable_name():
    networks = {"generator": model(), "discriminator": model()}
    names = set()
    for name, network in networks.items():
        optimizer = optimizers.build(Adam(), 10)
        optimizer.build(network.trainable_variables)
        names |= {f"{name}/{variable.path}" for variable in optimizer.variables}
    assert len(names) == 2 * len(optimizer.variables)

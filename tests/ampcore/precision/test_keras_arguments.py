"""ampcore.LossScaleOptimizer with the arguments, attributes and configurations of Keras's own."""

import keras
import numpy as np
import pytest

from ampcore.precision import CalibratedLossScale, DynamicLossScale, FixedLossScale, NoLossScale
from ampcore.precision.keras_optimizer import LossScaleOptimizer

SGD, KerasOptimizer = keras.optimizers.SGD, keras.optimizers.LossScaleOptimizer


@pytest.mark.parametrize(
    ("loss_scale", "initial_scale", "growth_steps"),
    [
        (None, 2.0**15, 2000),
        (DynamicLossScale(initial=8.0, growth_interval=3), 8.0, 3),
        (CalibratedLossScale(initial=16.0), 16.0, 100),
        (FixedLossScale(128.0), 128.0, None),
        (NoLossScale(), 1.0, None),
        (64.0, 64.0, 2000),
    ],
)
def test_initial_scale_and_growth_steps_are_those_of_the_loss_scale(
    loss_scale, initial_scale, growth_steps
):
    optimizer = LossScaleOptimizer(SGD(), loss_scale)
    assert optimizer.initial_scale == float(optimizer.dynamic_scale) == initial_scale
    assert optimizer.dynamic_growth_steps == growth_steps
    optimizer.build([])
    assert float(optimizer.dynamic_scale) == initial_scale
    assert int(optimizer.step_counter) == 0


def test_the_arguments_of_keras_describe_a_dynamic_or_a_fixed_scale():
    named = {"initial_scale": 64.0, "dynamic_growth_steps": 5, "dynamic": True, "name": "scaled"}
    optimizer = LossScaleOptimizer(SGD(), **named)
    assert optimizer.loss_scale == DynamicLossScale(initial=64.0, growth_interval=5)
    assert optimizer.name == "scaled"
    fixed = LossScaleOptimizer(SGD(), dynamic=False, initial_scale=8)
    assert fixed.loss_scale == FixedLossScale(8.0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((64.0, 500), TypeError, "write dynamic_growth_steps=500"),
        ({"clipnorm": 1.0}, ValueError, "clipnorm: expected it on the `inner_optimizer`"),
        ({"use_ema": True}, ValueError, "use_ema: expected it on the `inner_optimizer`"),
        ({"growth": 2}, ValueError, "Received the arguments: `growth`"),
        ({"loss_scale": 8.0, "initial_scale": 4.0}, ValueError, "no number beside initial_scale"),
        ({"loss_scale": FixedLossScale(), "dynamic": False}, ValueError, "dynamic=False"),
        ({"loss_scale": FixedLossScale(), "initial_scale": 4.0}, ValueError, "initial_scale=4.0"),
        ({"dynamic": False}, ValueError, "initial_scale: expected a number with dynamic=False"),
    ],
)
def test_arguments_that_cannot_be_meant_are_named(arguments, error, message):
    positional, named = ((), arguments) if isinstance(arguments, dict) else (arguments, {})
    with pytest.raises(error, match=message):
        LossScaleOptimizer(SGD(), *positional, **named)


def test_a_constant_that_is_assigned_later_is_refused():
    optimizer = LossScaleOptimizer(SGD())
    with pytest.raises(AttributeError, match="initial_scale: expected it as an argument"):
        optimizer.initial_scale = 8.0
    with pytest.raises(AttributeError, match="dynamic_growth_steps: expected it as an argument"):
        optimizer.dynamic_growth_steps = 8


def test_a_configuration_of_keras_is_read():
    theirs = KerasOptimizer(SGD(0.25), initial_scale=8.0, dynamic_growth_steps=3, name="scaled")
    optimizer = LossScaleOptimizer.from_config(theirs.get_config())
    assert optimizer.loss_scale == DynamicLossScale(initial=8.0, growth_interval=3)
    assert optimizer.name == "scaled"
    assert float(optimizer.learning_rate) == 0.25


def test_an_older_configuration_of_keras_with_unused_arguments_is_read():
    unused = {"weight_decay": None, "use_ema": False, "ema_momentum": 0.99, "clipnorm": None}
    config = KerasOptimizer(SGD(), initial_scale=8.0).get_config() | unused
    assert LossScaleOptimizer.from_config(config).initial_scale == 8.0


def test_a_configuration_that_version_0_5_wrote_is_read():
    config = {
        "name": "scaled",
        "inner_optimizer": keras.saving.serialize_keras_object(SGD()),
        "loss_scale": {"kind": "FixedLossScale", "value": 16.0},
    }
    assert LossScaleOptimizer.from_config(config).loss_scale == FixedLossScale(16.0)
    assert config["loss_scale"]["kind"] == "FixedLossScale", "the argument is left as it is"


def test_keras_reads_the_configuration_of_a_scale_that_it_can_describe():
    optimizer = LossScaleOptimizer(SGD(0.25), initial_scale=8.0, dynamic_growth_steps=3)
    theirs = KerasOptimizer.from_config(optimizer.get_config())
    assert (theirs.initial_scale, theirs.dynamic_growth_steps) == (8.0, 3)


@pytest.mark.parametrize(
    "loss_scale",
    [
        DynamicLossScale(initial=8.0),
        DynamicLossScale(initial=8.0, maximum=16.0),
        DynamicLossScale(initial=0.5, minimum=0.25),
        CalibratedLossScale(initial=8.0),
        FixedLossScale(8.0),
        NoLossScale(),
    ],
)
def test_the_configuration_makes_an_equal_optimizer(loss_scale):
    config = LossScaleOptimizer(SGD(), loss_scale).get_config()
    assert LossScaleOptimizer.from_config(config).loss_scale == loss_scale


class Penalty(keras.layers.Layer):
    """Adds a loss of many values, and of the dtype that the layer computes in."""

    def call(self, inputs):
        self.add_loss(keras.ops.square(inputs))
        return inputs


@pytest.mark.parametrize("run_eagerly", [True, False], ids=["eager", "graph"])
def test_fit_adds_up_a_float16_loss_of_a_layer_in_float32(run_eagerly):
    """300 elements of 300: their sum is beyond float16."""
    outputs = 300
    model = keras.Sequential([keras.Input((outputs,)), Penalty(dtype="mixed_float16")])
    model.add(keras.layers.Dense(1, kernel_initializer="zeros", dtype="float32"))
    model.compile(LossScaleOptimizer(SGD(0.0)), "mse", run_eagerly=run_eagerly)
    x, y = np.full((1, outputs), 300.0**0.5, np.float32), np.full((1, 1), 2.0, np.float32)
    [loss] = model.fit(x, y, verbose=0).history["loss"]
    assert loss == pytest.approx(4.0 + outputs * 300.0, rel=1e-3)


def test_a_model_with_another_optimizer_is_left_to_keras():
    LossScaleOptimizer(SGD())
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(SGD(), "mse")
    loss = keras.ops.cast(1.0, "float16")
    assert model._aggregate_additional_loss(loss).dtype == "float16"

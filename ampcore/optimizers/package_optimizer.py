"""The optimizers of packages that the operator has installed on the worker."""

import math
from typing import Any, Final

import keras
import tensorflow as tf

from ampcore import plugins as packages
from ampspec.errors import InvalidModel
from ampspec.objectives.optimizer import PackageOptimizer

FIELD: Final = f"{PackageOptimizer.section}.package"

Optimizer = Any
"""A keras.optimizers.Optimizer."""


def package_optimizer(spec: PackageOptimizer, learning_rate: Any) -> Optimizer:
    """The optimizer that the package builds, after another one has updated a weight.

    Args:
        spec: What names it.
        learning_rate: A number, or a Keras LearningRateSchedule.

    Raises:
        InvalidModel: It cannot be built, has another learning rate or a loss scale, or cannot
            update a weight.
    """
    _try_update(spec, _built(spec, learning_rate))
    # Checked as well: a function that returns the same one twice returns a built one now.
    return _built(spec, learning_rate)


def _built(spec: PackageOptimizer, learning_rate: Any) -> Optimizer:
    optimizer = packages.build(spec, "an optimizer", learning_rate)
    _check(spec, optimizer, learning_rate)
    return optimizer


def _check(spec: PackageOptimizer, optimizer: Optimizer, learning_rate: Any) -> None:
    expected = None
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        expected, received = "a keras.optimizers.Optimizer", type(optimizer).__name__
    elif optimizer.built:
        expected, received = "a new optimizer", "one that was built for other weights"
    elif isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        expected, received = "an optimizer without a loss scale", type(optimizer).__name__
    elif optimizer.loss_scale_factor is not None:
        expected = "an optimizer without a loss scale"
        received = f"loss_scale_factor={optimizer.loss_scale_factor}"
    else:
        spec_rate = float(learning_rate(0) if callable(learning_rate) else learning_rate)
        rate = float(optimizer.learning_rate)
        if not math.isclose(rate, spec_rate, rel_tol=1e-6):
            expected = f"an optimizer with the learning rate that it is given, {spec_rate:g}"
            received = f"{rate:g}"
    if expected is not None:
        raise InvalidModel(FIELD, expected=f"{spec.label} to return {expected}", received=received)


def _try_update(spec: PackageOptimizer, optimizer: Optimizer) -> None:
    """Trace an update, so that a mistake in it names the package."""
    weight = keras.Variable(tf.zeros((2, 3)), name="weight")

    def update(gradient: Any) -> None:
        optimizer.apply([gradient], [weight])

    try:
        optimizer.build([weight])
        traced = tf.function(update, autograph=False)
        traced.get_concrete_function(tf.TensorSpec((2, 3), tf.float32))
    except Exception as error:
        raise packages.unusable(spec, "to update a weight", error) from error

"""Losses of Keras, by name, as objects or as functions; all are computed in float32."""

import re
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ampspec.errors import InvalidModel

Tensor = Any
Loss = Any
"""A keras.losses.Loss."""


class FunctionLoss(keras.losses.Loss):  # type: ignore[misc]
    """A loss given as a function.

    Args:
        function: (targets, predictions), both float32, to the loss of each example, or to their
            mean.
        name: The name of the loss; None: that of the function.
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], name: str | None = None):
        super().__init__(name=_scope_name(name or str(getattr(function, "__name__", "loss"))))
        self.function = function

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """What the function returns for arguments of one rank, as in `fit`."""
        return self.function(*_with_equal_rank(y_true, y_pred))


def _with_equal_rank(targets: Tensor, predictions: Tensor) -> tuple[Tensor, Tensor]:
    """Targets (n,) of an output (n, 1) get its axis: both would be combined to (n, n)."""
    if predictions.shape.rank == targets.shape.rank + 1 and predictions.shape[-1] == 1:
        return tf.expand_dims(targets, -1), predictions
    if targets.shape.rank == predictions.shape.rank + 1 and targets.shape[-1] == 1:
        return targets, tf.expand_dims(predictions, -1)
    return targets, predictions


def as_loss(identifier: object, field: str = "loss") -> Loss:
    """The Keras loss that a name, an object or a function stands for.

    Args:
        identifier: A name of Keras such as "mse", a keras.losses.Loss, or a function as of
            FunctionLoss.
        field: Where it was given, for errors.

    Raises:
        InvalidModel: It is none of these, or a loss without a reduction.
    """
    if isinstance(identifier, keras.losses.Loss):
        if identifier.reduction in (None, "none"):
            raise InvalidModel(
                field,
                expected='a loss with a reduction: "sum_over_batch_size" for the mean of the '
                'examples, "sum" for what `fit` trains without one',
                received=f'{type(identifier).__name__} with reduction="none"',
            )
        return identifier
    if isinstance(identifier, str):
        try:
            loss = keras.losses.get(identifier)
        except ValueError:
            loss = None
        if loss is not None:
            return loss if isinstance(loss, keras.losses.Loss) else FunctionLoss(loss, identifier)
    elif callable(identifier) and not isinstance(identifier, type):
        return FunctionLoss(identifier)
    raise InvalidModel(
        field,
        expected="the name of a loss in keras.losses, a keras.losses.Loss, or a function of "
        "(targets, predictions)",
        received=repr(identifier),
    )


def _scope_name(name: str) -> str:
    """A name that TensorFlow accepts for a scope, which `<lambda>` and `_loss` are not."""
    return re.sub(r"[^A-Za-z0-9_]", "", name).lstrip("_") or "loss"


def example_losses(loss: Loss, targets: Tensor, predictions: Tensor) -> Tensor:
    """The loss of each example, float32 (n,); the mean of all where the loss has no such values."""
    count = tf.shape(predictions)[:1]
    targets, predictions = (
        tf.cast(tf.convert_to_tensor(part), tf.float32) for part in (targets, predictions)
    )
    values = tf.cast(loss.call(targets, predictions), tf.float32)
    if values.shape.rank == 0:
        return tf.fill(count, values)
    return tf.reduce_mean(values, axis=list(range(1, values.shape.rank)))

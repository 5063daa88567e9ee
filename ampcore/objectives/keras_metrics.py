"""Metrics of Keras, by name, as objects or as functions; all accumulate in float32."""

from typing import Any, Final

import keras
import tensorflow as tf

from ampspec.errors import InvalidModel

Loss = Any
Metric = Any
"""A keras.metrics.Metric."""

ACCURACY: Final = ("accuracy", "acc")
"""Names that stand for the accuracy that fits the shapes and the loss of an output."""


def as_metric(
    identifier: object,
    targets: tf.TensorSpec,
    predictions: tf.TensorSpec,
    loss: Loss | None,
    field: str,
) -> Metric:
    """The Keras metric that a name, an object or a function stands for, with its variables.

    Args:
        identifier: A name of Keras such as "mae", a keras.metrics.Metric, or a function of
            (targets, predictions) that returns a value for each example.
        targets: The shape and dtype of the targets of one example.
        predictions: Those of the output.
        loss: The loss of the output: "accuracy" of logits counts those above 0, not 0.5.
        field: Where it was given, for errors.

    Raises:
        InvalidModel: It is none of these.
    """
    metric = _metric(identifier, targets, predictions, loss, field)
    if not metric.variables:
        create_variables(metric, targets, predictions)
    return metric


def _metric(
    identifier: object,
    targets: tf.TensorSpec,
    predictions: tf.TensorSpec,
    loss: Loss | None,
    field: str,
) -> Metric:
    if isinstance(identifier, keras.metrics.Metric):
        return identifier  # its own sums are not changed: those of a run are kept apart
    if isinstance(identifier, str) and identifier in ACCURACY:
        return _accuracy(identifier, targets, predictions, loss)
    function: Any = identifier
    if isinstance(identifier, str):
        try:
            function = keras.metrics.get(identifier)
        except ValueError:
            function = None
        if isinstance(function, keras.metrics.Metric):
            function.name = identifier
            return function
    if callable(function) and not isinstance(function, type):
        name = (
            identifier if isinstance(identifier, str) else getattr(identifier, "__name__", "metric")
        )
        return keras.metrics.MeanMetricWrapper(function, name=name)
    raise InvalidModel(
        field,
        expected="the name of a metric in keras.metrics, a keras.metrics.Metric, or a function of "
        "(targets, predictions)",
        received=repr(identifier),
    )


def _accuracy(
    name: str, targets: tf.TensorSpec, predictions: tf.TensorSpec, loss: Loss | None
) -> Metric:
    """The choice of Keras, with the threshold 0 for logits."""
    target, predicted = targets.shape, predictions.shape
    if predicted.rank == 0 or predicted[-1] == 1:
        threshold = 0.0 if getattr(loss, "from_logits", False) else 0.5
        return keras.metrics.BinaryAccuracy(name=name, threshold=threshold)
    if target.rank < predicted.rank or target[-1] == 1:
        return keras.metrics.SparseCategoricalAccuracy(name=name)
    return keras.metrics.CategoricalAccuracy(name=name)


def create_variables(metric: Metric, targets: tf.TensorSpec, predictions: tf.TensorSpec) -> None:
    """Update a metric once: some create their variables then, which must not be traced."""
    zeros = [
        tf.zeros((1, *(size or 1 for size in spec.shape)), spec.dtype)
        for spec in (targets, predictions)
    ]
    metric.update_state(*zeros)
    metric.reset_state()

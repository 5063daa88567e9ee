"""The metrics of packages that the operator has installed on the worker."""

from typing import Any, Final

import keras
import tensorflow as tf

from ampcore import plugins as packages
from ampcore.keras_internals import metric_function
from ampcore.objectives.keras_metrics import create_variables
from ampspec.errors import InvalidModel
from ampspec.objectives.metrics import PackageMetric, metric_name

EXAMPLES: Final = 7
"""Of the batch that a metric is traced with: no usual size of an axis, to tell it from others."""
FIELD: Final = f"{PackageMetric.section}.package"

Metric = Any
"""A keras.metrics.Metric."""


def package_metric(spec: PackageMetric) -> Metric:
    """The metric that the package builds, not called yet; raises InvalidModel where it cannot."""
    metric = packages.build(spec, "a metric")
    if isinstance(metric, keras.metrics.Metric):
        metric.name = metric_name(spec)
        return metric
    if callable(metric) and not isinstance(metric, type):
        return keras.metrics.MeanMetricWrapper(metric, name=metric_name(spec))
    raise InvalidModel(
        FIELD,
        expected=f"{spec.label} to return a keras.metrics.Metric, or a function of (y_true, "
        "y_pred)",
        received=type(metric).__name__,
    )


def check_package_metric(
    spec: PackageMetric, metric: Metric, targets: tf.TensorSpec, predictions: tf.TensorSpec
) -> None:
    """Create the variables of a package's metric, and trace it once.

    So a mistake in it names the package, before the first step.

    Args:
        spec: What names it.
        metric: The metric.
        targets: The shape and dtype of the targets of one example.
        predictions: Those of the output of the model for one example.

    Raises:
        InvalidModel: It cannot be traced, is not in float32, or its result is no number.
    """
    if metric.dtype != "float32":
        raise InvalidModel(
            FIELD, expected=f"{spec.label} to compute in float32", received=str(metric.dtype)
        )

    def compute(y_true: Any, y_pred: Any) -> Any:
        state = metric.stateless_update_state(metric.stateless_reset_state(), y_true, y_pred)
        result = tf.cast(metric.stateless_result(state), tf.float32)
        is_function = isinstance(metric, keras.metrics.MeanMetricWrapper)
        if not is_function:
            return result, y_pred
        function, _ = metric_function(metric)
        return result, function(y_true, y_pred)

    batch = [
        tf.TensorSpec((EXAMPLES, *tensor.shape), tensor.dtype) for tensor in (targets, predictions)
    ]
    try:
        if not metric.variables:
            create_variables(metric, targets, predictions)
        traced = tf.function(compute, autograph=False).get_concrete_function(*batch)
    except Exception as error:
        raise packages.unusable(spec, "to be computed for these targets", error) from error
    result, of_examples = (tuple(tensor.shape) for tensor in traced.outputs)
    if len(result) > 1 or None in result or 0 in result:
        expected, received = "to have one number as its result, or a vector", str(list(result))
    elif of_examples[:1] != (EXAMPLES,):
        expected = "to return a value for each example"
        received = f"shape {list(of_examples)} for {EXAMPLES} examples"
    else:
        return
    raise InvalidModel(FIELD, expected=f"{spec.label} {expected}", received=received)

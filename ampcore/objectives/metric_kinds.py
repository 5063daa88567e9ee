"""The metrics that a spec can name, on logits and plain values; they accumulate in float32."""

from typing import Any, Literal

import keras
import tensorflow as tf

from ampcore.objectives.package_metric import package_metric
from ampspec.objectives import metrics as specs

Tensor = Any
Metric = Any
"""A keras.metrics.Metric."""
Kind = Literal["precision", "recall", "f1", "iou"]


class ClassificationMetric(keras.metrics.Metric):  # type: ignore[misc]
    """Precision, recall, F1 or intersection over union, from counts of each class.

    Args:
        kind: Which of them.
        classes: The number of classes or labels.
        average: "macro": the mean over the classes that occur in targets or predictions; "micro":
            of the counts of all classes together.
        has_classes: Targets are classes and predictions logits (n, …, classes); else both are
            labels (n, …, labels), predicted where a logit is above 0.
        name: The name of the metric.
    """

    def __init__(
        self, kind: Kind, classes: int, average: specs.Average, *, has_classes: bool, name: str
    ) -> None:
        super().__init__(name=name)
        self._kind, self._classes, self._average = kind, classes, average
        self._has_classes = has_classes
        names = ("true_positives", "predicted", "actual")
        self._counts = [
            self.add_variable((classes,), "zeros", name=name, dtype="float32") for name in names
        ]

    def update_state(self, y_true: Tensor, y_pred: Tensor) -> None:
        """Count a batch."""
        predicted = tf.convert_to_tensor(y_pred)
        if self._has_classes:
            actual = tf.one_hot(tf.cast(y_true, tf.int32), self._classes)
            chosen = tf.one_hot(tf.argmax(predicted, axis=-1), self._classes)
        else:
            actual = tf.cast(tf.reshape(y_true, tf.shape(predicted)), tf.float32)
            chosen = tf.cast(predicted > 0, tf.float32)
        axes = list(range(actual.shape.rank - 1))
        batch = (actual * chosen, chosen, actual)
        for count, values in zip(self._counts, batch, strict=True):
            count.assign(count + tf.reduce_sum(values, axis=axes))

    def result(self) -> Tensor:
        """From 0 to 1; 0 before the first example."""
        counts = [tf.convert_to_tensor(count.value) for count in self._counts]
        if self._average == "micro":
            counts = [tf.reduce_sum(count, keepdims=True) for count in counts]
        both, predicted, actual = counts
        of = {
            "precision": (both, predicted),
            "recall": (both, actual),
            "f1": (2.0 * both, predicted + actual),
            "iou": (both, predicted + actual - both),
        }
        by_class = tf.math.divide_no_nan(*of[self._kind])
        occurs = tf.cast(predicted + actual > 0, tf.float32)
        return tf.math.divide_no_nan(tf.reduce_sum(by_class * occurs), tf.reduce_sum(occurs))


class AreaUnderCurve(keras.metrics.AUC):  # type: ignore[misc]
    """The area under the ROC curve of logits; of several classes, the mean one-vs-rest.

    Args:
        classes: The number of classes or labels.
        has_classes: As of ClassificationMetric.
    """

    def __init__(self, classes: int, *, has_classes: bool) -> None:
        several = classes > 2 if has_classes else classes > 1
        options = {"multi_label": True, "num_labels": classes} if several else {}
        super().__init__(name="auc", **options)
        self._classes, self._has_classes, self._has_several = classes, has_classes, several

    def update_state(self, y_true: Tensor, y_pred: Tensor) -> None:
        """Count a batch at every threshold; positions of a sequence count as examples."""
        logits = tf.reshape(tf.cast(y_pred, tf.float32), [-1, y_pred.shape[-1]])
        if not self._has_classes:
            targets, probabilities = tf.reshape(y_true, tf.shape(logits)), tf.sigmoid(logits)
        elif self._has_several:
            classes = tf.reshape(tf.cast(y_true, tf.int32), [-1])
            targets, probabilities = tf.one_hot(classes, self._classes), tf.nn.softmax(logits)
        else:
            targets, probabilities = tf.reshape(y_true, [-1]), tf.nn.softmax(logits)[:, 1]
        super().update_state(targets, probabilities)


class Perplexity(keras.metrics.Mean):  # type: ignore[misc]
    """The exponential of the mean cross-entropy."""

    def __init__(self) -> None:
        super().__init__(name="perplexity")

    def update_state(self, y_true: Tensor, y_pred: Tensor) -> None:
        """Add the cross-entropies of a batch."""
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            tf.cast(y_true, tf.int32), tf.cast(y_pred, tf.float32)
        )
        super().update_state(loss)

    def result(self) -> Tensor:
        """At least 1."""
        return tf.exp(super().result())


def build_metric(spec: specs.MetricSpec, classes: int, *, has_classes: bool) -> Metric:
    """The metric of a spec.

    Args:
        spec: The kind and its options.
        classes: The number of classes, labels or numbers.
        has_classes: The targets are classes, not labels or numbers.
    """
    name = specs.metric_name(spec)
    match spec:
        case specs.Accuracy() if has_classes:
            return keras.metrics.SparseCategoricalAccuracy(name=name)
        case specs.Accuracy():
            return keras.metrics.BinaryAccuracy(name=name, threshold=0.0)
        case specs.TopK():
            return keras.metrics.SparseTopKCategoricalAccuracy(spec.k, name=name)
        case specs.PrecisionMetric() | specs.RecallMetric() | specs.F1() | specs.Iou():
            return ClassificationMetric(
                spec.kind, classes, spec.average, has_classes=has_classes, name=name
            )
        case specs.Auc():
            return AreaUnderCurve(classes, has_classes=has_classes)
        case specs.Perplexity():
            return Perplexity()
        case specs.MeanAbsoluteErrorMetric():
            return keras.metrics.MeanAbsoluteError(name=name)
        case specs.MeanSquaredErrorMetric():
            return keras.metrics.MeanSquaredError(name=name)
        case specs.RootMeanSquaredError():
            return keras.metrics.RootMeanSquaredError(name=name)
        case specs.PackageMetric():
            return package_metric(spec)

"""The metrics that a spec can name, on logits and plain values; they accumulate in float32."""

from typing import Any, Literal

import keras
import tensorflow as tf

from ampcore.spec import metrics as specs

Tensor = Any
Metric = Any
"""A keras.metrics.Metric."""
Share = Literal["precision", "recall", "f1", "iou"]


class ClassShare(keras.metrics.Metric):  # type: ignore[misc]
    """Precision, recall, F1 or intersection over union, from counts of each class.

    Args:
        share: Which of them.
        classes: The number of classes or labels.
        average: "macro": the mean over the classes that occur in targets or predictions; "micro":
            of the counts of all classes together.
        has_classes: Targets are classes and predictions logits (n, …, classes); else both are
            labels (n, …, labels), predicted where a logit is above 0.
    """

    def __init__(
        self, share: Share, classes: int, average: specs.Average, *, has_classes: bool
    ) -> None:
        super().__init__(name=share)
        self._share, self._classes, self._average = share, classes, average
        self._has_classes = has_classes
        names = ("true_positives", "predicted", "actual")
        self._counts = [
            self.add_variable((classes,), "zeros", name=name, dtype="float32") for name in names
        ]

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None) -> None:
        """Count a batch."""
        predicted = tf.convert_to_tensor(y_pred)
        if self._has_classes:
            actual = tf.one_hot(tf.cast(y_true, tf.int32), self._classes)
            chosen = tf.one_hot(tf.argmax(predicted, axis=-1), self._classes)
        else:
            actual = tf.cast(tf.reshape(y_true, tf.shape(predicted)), tf.float32)
            chosen = tf.cast(predicted > 0, tf.float32)
        if sample_weight is not None:
            weight = tf.cast(sample_weight, tf.float32)
            shape = tf.concat([tf.shape(weight), tf.ones(tf.rank(actual) - 1, tf.int32)], axis=0)
            weight = tf.reshape(weight, shape)
        else:
            weight = tf.constant(1.0)
        axes = list(range(actual.shape.rank - 1))
        batch = (actual * chosen, chosen, actual)
        for count, values in zip(self._counts, batch, strict=True):
            count.assign(count + tf.reduce_sum(weight * values, axis=axes))

    def result(self) -> Tensor:
        """The share, from 0 to 1; 0 before the first example."""
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
        shares = tf.math.divide_no_nan(*of[self._share])
        occurs = tf.cast(predicted + actual > 0, tf.float32)
        return tf.math.divide_no_nan(tf.reduce_sum(shares * occurs), tf.reduce_sum(occurs))


class AreaUnderCurve(keras.metrics.AUC):  # type: ignore[misc]
    """The area under the ROC curve of logits; of several classes, the mean one-vs-rest.

    Args:
        classes: The number of classes or labels.
        has_classes: As of ClassShare.
    """

    def __init__(self, classes: int, *, has_classes: bool) -> None:
        several = classes > 2 if has_classes else classes > 1
        options = {"multi_label": True, "num_labels": classes} if several else {}
        super().__init__(name="auc", **options)
        self._classes, self._has_classes, self._has_several = classes, has_classes, several

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None) -> None:
        """Count a batch at every threshold; positions of a sequence count as examples."""
        logits = tf.reshape(tf.cast(y_pred, tf.float32), [-1, y_pred.shape[-1]])
        if not self._has_classes:
            targets, shares = tf.reshape(y_true, tf.shape(logits)), tf.sigmoid(logits)
        elif self._has_several:
            classes = tf.reshape(tf.cast(y_true, tf.int32), [-1])
            targets, shares = tf.one_hot(classes, self._classes), tf.nn.softmax(logits)
        else:
            targets, shares = tf.reshape(y_true, [-1]), tf.nn.softmax(logits)[:, 1]
        super().update_state(targets, shares, sample_weight)


class Perplexity(keras.metrics.Mean):  # type: ignore[misc]
    """The exponential of the mean cross-entropy."""

    def __init__(self) -> None:
        super().__init__(name="perplexity")

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None) -> None:
        """Add the cross-entropies of a batch."""
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            tf.cast(y_true, tf.int32), tf.cast(y_pred, tf.float32)
        )
        super().update_state(loss, sample_weight)

    def result(self) -> Tensor:
        """At least 1."""
        return tf.exp(super().result())


class Differences(keras.metrics.Mean):  # type: ignore[misc]
    """The mean of absolute or squared differences, or the root of the latter.

    Args:
        kind: "mae", "mse" or "rmse".
    """

    def __init__(self, kind: Literal["mae", "mse", "rmse"]) -> None:
        super().__init__(name=kind)
        self._kind = kind

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None) -> None:
        """Add the differences of a batch."""
        predictions = tf.cast(y_pred, tf.float32)
        values = tf.reshape(tf.cast(y_true, tf.float32), tf.shape(predictions)) - predictions
        values = tf.abs(values) if self._kind == "mae" else tf.square(values)
        axes = list(range(1, values.shape.rank))
        super().update_state(tf.reduce_mean(values, axis=axes), sample_weight)

    def result(self) -> Tensor:
        """The mean, or its root."""
        mean = super().result()
        return tf.sqrt(mean) if self._kind == "rmse" else mean


def build_metric(spec: specs.MetricSpec, classes: int, *, has_classes: bool) -> Metric:
    """The metric of a spec.

    Args:
        spec: The kind and its options.
        classes: The number of classes, labels or numbers.
        has_classes: The targets are classes, not labels or numbers.
    """
    match spec:
        case specs.Accuracy() if has_classes:
            return keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        case specs.Accuracy():
            return keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)
        case specs.TopK():
            return keras.metrics.SparseTopKCategoricalAccuracy(spec.k, name=f"top_{spec.k}")
        case specs.PrecisionMetric() | specs.RecallMetric() | specs.F1() | specs.Iou():
            return ClassShare(spec.kind, classes, spec.average, has_classes=has_classes)
        case specs.Auc():
            return AreaUnderCurve(classes, has_classes=has_classes)
        case specs.Perplexity():
            return Perplexity()
        case _:
            return Differences(spec.kind)

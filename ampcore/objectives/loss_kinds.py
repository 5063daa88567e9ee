"""The losses that a spec can name, on logits and plain values, float32."""

from typing import Any, Final

import keras
import tensorflow as tf

from ampcore.objectives.package_loss import package_loss
from ampspec.objectives import losses as specs

EPSILON: Final = 1e-7

Tensor = Any
Loss = Any
"""A keras.losses.Loss; its `call` returns the loss of each example or position."""


class CrossEntropy(keras.losses.Loss):  # type: ignore[misc]
    """Softmax cross-entropy of classes, with label smoothing, class weights and a focal factor.

    The loss of a position is -w_c (1 - p_c)^gamma log p_c, and with smoothing s
    (1 - s) times that plus s times the mean of -log p over all classes.

    Args:
        label_smoothing: s.
        class_weights: w, one for each class; None: 1.
        gamma: The exponent of the focal loss; 0 for none.
        name: The name of the loss.
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        class_weights: tuple[float, ...] | None = None,
        gamma: float = 0.0,
        name: str = "cross_entropy",
    ) -> None:
        super().__init__(name=name)
        self._smoothing, self._weights, self._gamma = label_smoothing, class_weights, gamma

    @property
    def is_plain(self) -> bool:
        """Whether it is the cross-entropy alone."""
        return not self._smoothing and not self._gamma and self._weights is None

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """The loss of each position: classes (n, …) and logits (n, …, classes) to (n, …)."""
        classes = tf.cast(y_true, tf.int32)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(classes, y_pred)
        if self._gamma:
            # 1 - p from log p, without losing all digits where p is near 1.
            loss *= _power(-tf.math.expm1(-loss), self._gamma)
        if self._smoothing:
            uniform = -tf.reduce_mean(tf.nn.log_softmax(y_pred), axis=-1)
            loss = (1.0 - self._smoothing) * loss + self._smoothing * uniform
        if self._weights is not None:
            loss *= tf.gather(tf.constant(self._weights, tf.float32), classes)
        return loss


class BinaryCrossEntropy(keras.losses.Loss):  # type: ignore[misc]
    """Sigmoid cross-entropy of labels, with label smoothing, a weight of ones and a focal factor.

    Args:
        label_smoothing: s: the targets are s / 2 and 1 - s / 2.
        positive_weight: The factor of the loss of labels that are 1.
        gamma: The exponent of the focal loss; 0 for none.
        name: The name of the loss.
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        positive_weight: float = 1.0,
        gamma: float = 0.0,
        name: str = "binary_cross_entropy",
    ) -> None:
        super().__init__(name=name)
        self._smoothing, self._positive, self._gamma = label_smoothing, positive_weight, gamma

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """The mean over the labels of each example: both (n, …, labels) to (n, …)."""
        labels = _like(y_true, y_pred)
        smooth = labels * (1.0 - self._smoothing) + 0.5 * self._smoothing
        loss = tf.nn.sigmoid_cross_entropy_with_logits(smooth, y_pred)
        if self._gamma:
            wrong = tf.sigmoid(tf.where(labels > 0.5, -y_pred, y_pred))
            loss *= _power(wrong, self._gamma)
        if self._positive != 1.0:
            loss *= tf.where(labels > 0.5, self._positive, 1.0)
        return tf.reduce_mean(loss, axis=-1)


class Dice(keras.losses.Loss):  # type: ignore[misc]
    """1 - the mean over classes of (2 |P ∩ T| + smooth) / (|P| + |T| + smooth), over the batch.

    Args:
        smooth: Keeps the coefficient of a class that does not occur at 1.
        cross_entropy: The factor of a cross-entropy that is added.
        has_classes: Targets are classes and probabilities a softmax; else labels and sigmoids.
    """

    def __init__(self, smooth: float, cross_entropy: float, *, has_classes: bool) -> None:
        super().__init__(name="dice")
        self._smooth, self._has_classes = smooth, has_classes
        self._cross_entropy_weight = cross_entropy

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """The loss of the batch, a scalar, or of each position with a cross-entropy."""
        if self._has_classes:
            classes = tf.cast(y_true, tf.int32)
            targets = tf.one_hot(classes, y_pred.shape[-1])
            probabilities, entropy = tf.nn.softmax(y_pred), CrossEntropy()
        else:
            targets = _like(y_true, y_pred)
            probabilities, entropy = tf.sigmoid(y_pred), BinaryCrossEntropy()
        axes = list(range(y_pred.shape.rank - 1))
        both = tf.reduce_sum(targets * probabilities, axis=axes)
        sizes = tf.reduce_sum(targets, axis=axes) + tf.reduce_sum(probabilities, axis=axes)
        loss = 1.0 - tf.reduce_mean((2.0 * both + self._smooth) / (sizes + self._smooth))
        if self._cross_entropy_weight:
            loss += self._cross_entropy_weight * entropy.call(y_true, y_pred)
        return loss


def build_loss(spec: specs.LossSpec, *, has_classes: bool) -> Loss:
    """The loss of a spec; `has_classes`: the targets are classes, not labels or numbers."""
    match spec:
        case specs.CrossEntropy():
            return CrossEntropy(spec.label_smoothing, spec.class_weights)
        case specs.BinaryCrossEntropy():
            return BinaryCrossEntropy(spec.label_smoothing, spec.positive_weight)
        case specs.Focal() if has_classes:
            return CrossEntropy(0.0, spec.class_weights, spec.gamma, name="focal")
        case specs.Focal():
            return BinaryCrossEntropy(gamma=spec.gamma, name="focal")
        case specs.Dice():
            return Dice(spec.smooth, spec.cross_entropy, has_classes=has_classes)
        case specs.MeanSquaredError():
            return keras.losses.MeanSquaredError(name="mse")
        case specs.MeanAbsoluteError():
            return keras.losses.MeanAbsoluteError(name="mae")
        case specs.Huber():
            return keras.losses.Huber(spec.delta, name="huber")
        case specs.PackageLoss():
            return package_loss(spec)


def _power(base: Tensor, gamma: float) -> Tensor:
    """base^gamma; for a gamma below 1 the derivative at 0 would be infinite."""
    return tf.pow(tf.maximum(base, EPSILON), gamma)


def _like(targets: Tensor, predictions: Tensor) -> Tensor:
    """The targets in the shape of the predictions: one number may lack its axis."""
    targets = tf.cast(targets, tf.float32)
    if targets.shape.rank == predictions.shape.rank:
        return targets
    return tf.reshape(targets, tf.shape(predictions))

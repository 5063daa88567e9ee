"""One training step: a pure function of (state, batch) over the variables it was made for.

The order is that of Micikevicius et al. 2018: float32 weights → 16-bit compute → float32 loss
→ times the loss scale → gradients → float32 → divided by the scale → clip → update or skip.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from ampcore.precision import (
    LossScale,
    LossScaleState,
    apply_if_finite,
    each_value,
    exact_norm,
    global_norm,
)

Tensor = Any


class Batch(NamedTuple):
    """Examples (n, …), float32, and their labels (n,), int32."""

    x: Tensor
    y: Tensor


class Record(NamedTuple):
    """What a step tells, as float32 scalars; the names are columns of StepBlock."""

    loss: Tensor
    loss_scale: Tensor
    skipped: Tensor
    grad_norm: Tensor
    learning_rate: Tensor


@dataclass(frozen=True)
class TrainStep:
    """The model's loss on a batch, and the update of its weights."""

    model: Any
    optimizer: Any
    loss_scale: LossScale
    clip_norm: float | None = None
    clip_value: float | None = None

    def __call__(self, state: LossScaleState, batch: Batch) -> tuple[LossScaleState, Record]:
        """Train on one batch; the record's loss and norm are unscaled, the norm unclipped."""
        variables, held = self.model.trainable_variables, self.model.non_trainable_variables
        before = [tf.convert_to_tensor(variable.value) for variable in held]
        with tf.GradientTape() as tape:
            # Stateless: a skipped step must not leave its statistics and seeds behind.
            logits, after = self.model.stateless_call(variables, before, batch.x, training=True)
            loss = mean_loss(logits, batch.y)
            scaled = self.loss_scale.scale(state, loss)
        grads = tape.gradient(scaled, [variable.value for variable in variables])
        # Unscale before clipping: the limits are in unscaled units.
        grads = self.loss_scale.unscale(state, grads)
        norm = global_norm(grads)
        # Read before the step counts: a schedule's next value belongs to the next step.
        rate = tf.cast(self.optimizer.learning_rate, tf.float32)
        new_state, finite = apply_if_finite(
            self.loss_scale,
            state,
            [(self.optimizer, self._clip(grads, norm), variables)],
            also=_changed(held, before, after),
        )
        skipped = tf.cast(tf.logical_not(finite), tf.float32)
        return new_state, Record(loss, state.scale, skipped, norm, rate)

    def _clip(self, grads: list[Any], norm: Tensor) -> list[Any]:
        if self.clip_norm is not None:
            # Gradients that are not finite stay so: their norm is NaN, or infinity times zero is.
            factor = tf.minimum(1.0, self.clip_norm / exact_norm(grads, norm))
            grads = each_value(lambda value: value * factor, grads)
        if self.clip_value is not None:
            limit = self.clip_value
            grads = each_value(lambda value: _clip_by_value(value, limit), grads)
        return grads


def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean sparse categorical cross-entropy of a batch, in float32."""
    return tf.reduce_mean(losses(logits, labels))


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    """The sparse categorical cross-entropy of each example, in float32."""
    logits = tf.cast(logits, tf.float32)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def _clip_by_value(grad: Tensor, limit: float) -> Tensor:
    # Clipping would turn an infinity into a number and hide the overflow.
    clipped = tf.clip_by_value(grad, -limit, limit)
    return tf.where(tf.math.is_finite(grad), clipped, grad)


def _changed(
    variables: list[Any], before: list[Tensor], after: list[Tensor]
) -> list[tuple[Any, Tensor]]:
    """The variables that the forward pass would have assigned, with their new values."""
    rows = zip(variables, before, after, strict=True)
    return [(variable, new) for variable, old, new in rows if new is not old]

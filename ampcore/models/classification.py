"""The classification task: mean cross-entropy of float32 logits."""

from collections.abc import Mapping
from typing import Any, Literal

import tensorflow as tf

from ampcore.data.examples import Batch
from ampcore.models.stateless_call import StateUpdates
from ampcore.models.task import NonTrainable, Task, Tensor, Weights
from ampspec.data.target_columns import OUTPUT


class Classification(Task):
    """One network from examples to logits (n, classes), or (n, T, classes) for sequences.

    The loss is the mean over all labels: in a sequence every position is one.
    """

    metrics = ("loss", "accuracy")

    def losses(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch, seed: Tensor
    ) -> tuple[list[Tensor], list[StateUpdates]]:
        """The mean sparse categorical cross-entropy of the batch."""
        logits, updates = self._logits(weights, non_trainable, batch.x, training=True)
        return [tf.reduce_mean(cross_entropy(logits, batch.y))], [updates]

    def measure(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch
    ) -> dict[str, Tensor]:
        """Each example's loss, and the share of its labels that have the largest logit."""
        return self.evaluate_examples(weights, non_trainable, batch)[0]

    def evaluate_examples(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The same, and the logits."""
        logits, _ = self._logits(weights, non_trainable, batch.x, training=False)
        right = tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), batch.y)
        metrics = {
            "loss": per_example(cross_entropy(logits, batch.y)),
            "accuracy": per_example(tf.cast(right, tf.float32)),
        }
        return metrics, {OUTPUT: tf.cast(logits, tf.float32)}

    def output_losses(self) -> Mapping[str, Any]:
        """The only output."""
        return {OUTPUT: None}

    def loss_kind(self) -> Literal["cross_entropy", "squared"] | None:
        """The cross-entropy of classes."""
        return "cross_entropy"

    def _logits(
        self, weights: Weights, non_trainable: NonTrainable, x: Tensor, *, training: bool
    ) -> Any:
        return self.networks[0](weights[0], non_trainable[0], x, training=training)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Sparse categorical cross-entropy of each label, float32, in the shape of `labels`."""
    # In 16 bits the sum over the classes would lose the small probabilities.
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32))


def binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of each logit (n,), float32, for labels 0 or 1 or in between."""
    return tf.nn.sigmoid_cross_entropy_with_logits(
        tf.cast(labels, tf.float32), tf.cast(logits, tf.float32)
    )


def per_example(values: Tensor) -> Tensor:
    """The mean over all axes but the first: (n, …) to (n,)."""
    return tf.reduce_mean(values, axis=list(range(1, len(values.shape))))

"""Loss and accuracy over all validation examples, in one compiled call."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ampcore.data import Dataset
from ampcore.train.step import Batch, losses

Tensor = Any


@dataclass(frozen=True)
class Evaluation:
    """The mean loss and the share of examples classified right."""

    val_loss: float
    val_accuracy: float


class Evaluator:
    """Evaluates the model as its weights now stand; exact, the last short batch included."""

    def __init__(self, model: Any, dataset: Dataset, batch_size: int) -> None:
        self._count = len(dataset.x_val)
        batches = -(-self._count // batch_size)
        # Batches of one size, as even as they go: the fewest rows of padding.
        size = -(-self._count // batches)
        padding = batches * size - self._count
        self._data = Batch(_padded(dataset.x_val, padding), _padded(dataset.y_val, padding))
        self.function = tf.function(_evaluation(model, batches, size), autograph=False)

    def __call__(self) -> Evaluation:
        """Loss and accuracy, computed in the precision policy, summed in float64."""
        loss, correct = self.function(self._data, tf.constant(self._count))
        return Evaluation(float(loss) / self._count, int(correct) / self._count)


def _padded(array: Any, rows: int) -> Tensor:
    return tf.constant(np.pad(array, [(0, rows)] + [(0, 0)] * (array.ndim - 1)))


def _evaluation(model: Any, batches: int, size: int) -> Any:
    def evaluation(data: Batch, count: Tensor) -> tuple[Tensor, Tensor]:
        def body(index: Tensor, loss: Tensor, correct: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            rows = index * size + tf.range(size)
            start = index * size
            logits = model(data.x[start : start + size], training=False)
            labels = data.y[start : start + size]
            real = rows < count
            values = tf.where(real, losses(logits, labels), 0.0)
            right = tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), labels)
            return (
                index + 1,
                loss + tf.reduce_sum(tf.cast(values, tf.float64)),
                correct + tf.math.count_nonzero(tf.logical_and(real, right)),
            )

        zero = (tf.constant(0), tf.constant(0.0, tf.float64), tf.constant(0, tf.int64))
        _, loss, correct = tf.while_loop(lambda index, *_: index < batches, body, zero)
        return loss, correct

    return evaluation

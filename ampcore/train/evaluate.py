"""Loss and accuracy over all validation examples, in one compiled call."""

from typing import Any

import numpy as np
import tensorflow as tf

from ampcore.data import Batch, Dataset
from ampcore.models.task import Task
from ampcore.train.batch_slicing import slice_batch

Tensor = Any
Evaluation = dict[str, float]
"""The mean over the examples by metric: `val_loss`, and `val_accuracy` if the task has it."""


class Evaluator:
    """Evaluates a task exactly, the last short batch included."""

    def __init__(self, task: Task, dataset: Dataset, batch_size: int) -> None:
        self._task, self._count = task, len(dataset.y_val)
        batches = -(-self._count // batch_size)
        # Batches of equal size, chosen for the least padding.
        size = -(-self._count // batches)
        padding = batches * size - self._count
        self._data = Batch(_padded(dataset.x_val, padding), _padded(dataset.y_val, padding))
        self.function = tf.function(_evaluation(task, batches, size), autograph=False)

    def __call__(self, weights: list[list[Tensor]]) -> Evaluation:
        """The means with these weights, computed in the precision policy, summed in float64."""
        sums = self.function(weights, self._data, tf.constant(self._count))
        return {f"val_{name}": float(total) / self._count for name, total in sums.items()}


def _padded(array: Any, rows: int) -> Tensor:
    return tf.constant(np.pad(array, [(0, rows)] + [(0, 0)] * (array.ndim - 1)))


def _evaluation(task: Task, batches: int, size: int) -> Any:
    def sums(weights: Any, data: Batch, index: Tensor, count: Tensor) -> dict[str, Tensor]:
        batch = slice_batch(data, index, size)
        rows = index * size + tf.range(size)
        real = rows < count
        return {
            name: tf.reduce_sum(tf.cast(tf.where(real, values, 0.0), tf.float64))
            for name, values in task.measure(weights, task.non_trainable(), batch).items()
        }

    def evaluation(weights: Any, data: Batch, count: Tensor) -> dict[str, Tensor]:
        def body(index: Tensor, total: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            found = sums(weights, data, index, count)
            return index + 1, {name: total[name] + found[name] for name in total}

        zeros = {name: tf.constant(0.0, tf.float64) for name in task.metrics}
        loop = tf.while_loop(lambda index, *_: index < batches, body, (tf.constant(0), zeros))
        total: dict[str, Tensor] = loop[1]
        return total

    return evaluation

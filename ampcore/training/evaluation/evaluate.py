"""The metrics of a task over all validation examples."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import tensorflow as tf

from ampcore.data import Batch, Examples
from ampcore.data.batches import BatchSource
from ampcore.data.examples import consecutive, example_bytes
from ampcore.models.task import Task

Tensor = Any
Evaluation = dict[str, float]
"""The value of each metric, as `val_loss`, `val_accuracy`, …"""

PIECE_BYTES: Final = 64 * 2**20
"""The size of the pieces in which examples are copied to the device; one piece stays there."""


class Evaluator:
    """Evaluates a task exactly: every example once, the last short batch included."""

    def __init__(self, task: Task, examples: Examples | BatchSource, batch_size: int) -> None:
        self._task, self._examples = task, examples
        self._size = self._piece = batch_size
        self._resident: list[tuple[Batch, int]] | None = None
        if not isinstance(examples, BatchSource):
            batches = -(-len(examples) // batch_size)
            # Batches of equal size: a last batch of one example would be as slow as a full one.
            self._size = -(-len(examples) // batches)
            batch_bytes = max(1, self._size * example_bytes(examples))
            piece = self._size * max(1, PIECE_BYTES // batch_bytes)
            self._piece = min(piece, len(examples))
            if self._piece == len(examples):
                self._resident = list(self._pieces())
        self.function = tf.function(_metrics_of_piece(task, self._size), autograph=False)

    def __call__(self, weights: list[list[Tensor]]) -> Evaluation:
        """The metrics with these weights, computed in the precision policy of the task."""
        states = self._task.initial_metrics()
        for piece, count in self._resident or self._pieces():
            states = self.function(weights, states, piece, tf.constant(count))
        metrics = self._task.metric_values(states)
        return {f"val_{name}": float(value) for name, value in metrics.items()}

    def _pieces(self) -> Iterator[tuple[Batch, int]]:
        """Pieces of equal size, and how many of their rows are examples."""
        examples = self._examples
        rows = (
            examples.epoch(0, 0)
            if isinstance(examples, BatchSource)
            else consecutive(examples, self._piece)
        )
        for batch in rows:
            count = len(batch.parts[0])
            missing = self._piece - count
            yield (
                batch.map(lambda part, missing=missing: tf.constant(_padded(part, missing))),
                count,
            )


def _padded(part: Any, rows: int) -> Any:
    return np.pad(part, [(0, rows)] + [(0, 0)] * (part.ndim - 1)) if rows else part


def _metrics_of_piece(task: Task, size: int) -> Any:
    def metrics(weights: Any, states: Any, piece: Batch, count: Tensor) -> Any:
        non_trainable = task.non_trainable()

        def body(start: Tensor, states: Any) -> tuple[Tensor, Any]:
            end = tf.minimum(start + size, count)
            batch = piece.map(lambda part: part[start:end])
            return end, task.update_metrics(states, weights, non_trainable, batch)

        loop = tf.while_loop(lambda start, _: start < count, body, (tf.constant(0), states))
        return loop[1]

    return metrics

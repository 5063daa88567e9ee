"""Finds non-finite values and the largest magnitudes in weights and batches."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.models.task import Task

Tensor = Any


def nonfinite_variables(task: Task) -> list[str]:
    """The paths of the variables that hold a non-finite value."""
    several = len(task.networks) > 1
    return [
        f"{network.name}/{variable.path}" if several else variable.path
        for network in task.networks
        for variable in network.model.variables
        if tf.as_dtype(variable.dtype).is_floating and not _is_finite(variable.value)
    ]


def nonfinite_examples(batch: Batch) -> NDArray[np.int64]:
    """The indices of the examples of a batch that hold a non-finite value."""
    parts = [tf.convert_to_tensor(part) for part in batch.parts]
    bad = np.zeros(parts[0].shape[0], np.bool_)
    for part in parts:
        if part.dtype.is_floating:
            flat = tf.reshape(part, (part.shape[0], -1))
            bad |= ~tf.reduce_all(tf.math.is_finite(flat), axis=1).numpy()
    return np.flatnonzero(bad)


def largest_input(batch: Batch) -> float:
    """The largest magnitude in the inputs of floating dtypes; 0 without any."""
    parts = map(tf.convert_to_tensor, tf.nest.flatten(batch.x))
    return largest([part for part in parts if part.dtype.is_floating])


def largest(tensors: Sequence[Tensor]) -> float:
    """The largest magnitude in any of the tensors."""
    return max((float(tf.reduce_max(tf.abs(value))) for value in tensors), default=0.0)


def _is_finite(value: Tensor) -> bool:
    return bool(tf.reduce_all(tf.math.is_finite(value)))

"""The inner loop: many training steps in one call of one compiled function.

The state, the data and the records of the steps stay on the device; the host hears of a block
when it is done. Everything that changes between calls is a tensor, so it is traced once.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.precision import LossScaleState
from ampcore.train.step import Batch, Record

Tensor = Any
Step = Callable[[LossScaleState, Batch], tuple[LossScaleState, Record]]


class Loop:
    """The compiled loop over the batches of one epoch.

    `state` is that of the step after the last one. Tracing happens here, not in `run`.
    """

    def __init__(self, step: Step, state: LossScaleState, epoch: Batch, batch_size: int) -> None:
        self.state = state
        self.function = tf.function(_block(step, batch_size), autograph=False)
        # A concrete function cannot be traced again: other shapes would be an error.
        self._call = self.function.get_concrete_function(
            tf.nest.map_structure(tf.TensorSpec.from_tensor, state),
            tf.nest.map_structure(tf.TensorSpec.from_tensor, epoch),
            tf.TensorSpec([], tf.int32),
            tf.TensorSpec([], tf.int32),
        )

    def run(self, epoch: Batch, first_batch: int, count: int) -> NDArray[np.float32]:
        """Train `count` steps from batch `first_batch` of the epoch's examples on.

        Returns one row a step, one column for each field of Record.
        """
        self.state, records = self._call(
            self.state, epoch, tf.constant(first_batch), tf.constant(count)
        )
        rows: NDArray[np.float32] = records.numpy()
        return rows


def _block(step: Step, batch_size: int) -> Callable[..., tuple[LossScaleState, Tensor]]:
    width = len(Record._fields)

    def block(
        state: LossScaleState, epoch: Batch, first_batch: Tensor, count: Tensor
    ) -> tuple[LossScaleState, Tensor]:
        records = tf.TensorArray(tf.float32, size=count, element_shape=(width,))

        def body(
            index: Tensor, state: LossScaleState, records: Any
        ) -> tuple[Tensor, LossScaleState, Any]:
            start = (first_batch + index) * batch_size
            state, record = step(state, take(epoch, start, batch_size))
            # One row for all values: a write costs the same for one number as for five.
            return index + 1, state, records.write(index, tf.stack(record))

        _, state, records = tf.while_loop(
            lambda index, *_: index < count, body, (tf.constant(0), state, records)
        )
        return state, records.stack()

    return block


def take(epoch: Batch, start: Tensor, size: int) -> Batch:
    """`size` examples from `start` on: a view of the epoch's tensors, not a copy."""
    x, y = epoch.x[start : start + size], epoch.y[start : start + size]
    return Batch(tf.ensure_shape(x, (size, *epoch.x.shape[1:])), tf.ensure_shape(y, (size,)))

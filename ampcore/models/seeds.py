"""The random seeds of a step: one for each step and micro-batch.

The micro-batches of all ranks are numbered together. So a step draws the same noise on two
ranks as in one process that accumulates twice as many micro-batches.
"""

from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

Tensor = Any

# A fixed algorithm, so that every engine and device derives the same seeds.
_ALGORITHM: Final = "philox"


@dataclass(frozen=True)
class MicroBatchShard:
    """The micro-batches of a step that one rank trains on: `count` of `count` × `ranks`."""

    count: int = 1
    rank: int = 0
    ranks: int = 1

    @property
    def first(self) -> int:
        """The number of its first micro-batch in the step."""
        return self.rank * self.count

    @property
    def total(self) -> int:
        """The micro-batches of the step on all ranks."""
        return self.ranks * self.count

    def seed(self, step_seed: Tensor, index: Tensor | int) -> Tensor:
        """The seed of the noise in micro-batch `index` of this rank, int64 (2,)."""
        return micro_batch_seed(step_seed, self.first + index, self.total)


def step_seed(seed: int, step: Tensor) -> Tensor:
    """The seed of the noise in one step, int64 (2,).

    Args:
        seed: That of the job.
        step: The number of the step, an int64 scalar.
    """
    return tf.stack([tf.constant(seed, tf.int64), step])


def micro_batch_seed(seed: Tensor, index: Tensor | int, count: int) -> Tensor:
    """The seed of the noise in one micro-batch, int64 (2,).

    Args:
        seed: That of the step, which a step of one micro-batch keeps.
        index: The number of the micro-batch in its step.
        count: The micro-batches of a step.
    """
    return seed if count == 1 else _fold_in(seed, index)


def _fold_in(seed: Tensor, number: Tensor | int) -> Tensor:
    folded = tf.random.experimental.stateless_fold_in
    return folded(seed, tf.cast(number, seed.dtype), alg=_ALGORITHM)

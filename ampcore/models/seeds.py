"""The random seeds of a step: one for each step, replica and micro-batch."""

from typing import Any, Final

import tensorflow as tf

from ampcore.distributed import Replicas, SingleReplica

Tensor = Any

# A fixed algorithm, so that every engine and device derives the same seeds.
_ALGORITHM: Final = "philox"


def step_seed(seed: int, step: Tensor, replicas: Replicas | None = None) -> Tensor:
    """The seed of the noise in one step, int64 (2,).

    Args:
        seed: That of the job.
        step: The number of the step, an int64 scalar.
        replicas: With several replicas, each draws its own noise.
    """
    replicas = replicas or SingleReplica()
    own = tf.stack([tf.constant(seed, tf.int64), step])
    return own if replicas.size == 1 else _fold_in(own, replicas.rank)


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

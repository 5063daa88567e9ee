"""All-reduce of the gradients: the only communication between replicas in a step."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import tensorflow as tf

from ampcore.distributed.replicas import ReduceOp, Replicas
from ampcore.models.gradients import Gradients
from ampcore.models.task import NonTrainable

Tensor = Any


def all_reduce_gradients(
    replicas: Replicas, before: NonTrainable, found: Gradients, bad_micro_batches: Tensor
) -> tuple[Gradients, Tensor]:
    """Combine the results of all replicas once per step, so that all make the same update.

    Losses and gradients become their means, statistics of the forward pass too; of overwritten
    variables (Keras's float8 scales and amax histories) and of amaxes the largest value counts, as
    between micro-batches. Infinities and NaN propagate through the mean, so that all replicas agree
    whether the step is skipped, without further communication.

    Args:
        replicas: The replicas of the job; with one, everything is returned unchanged.
        before: The non-trainable values before the step: values that are still the same object
            did not change. Integers, such as the seeds of Dropout, are separate per replica.
        found: The unscaled float32 gradients of this replica.
        bad_micro_batches: How many micro-batches had non-finite gradients, float32.

    Returns:
        The combined gradients, which cannot be recomputed, and the sum of the bad micro-batches.

    Raises:
        ValueError: For a sparse gradient: rows of different replicas have no common mean.
    """
    if replicas.size == 1:
        return found, bad_micro_batches
    _check_dense(found)
    [bad_micro_batches] = replicas.all_reduce([bad_micro_batches], "sum")
    combined = Gradients(
        replicas.all_reduce(found.losses),
        _reduce_present(replicas, found.gradients),
        _reduce_statistics(replicas, before, found.state_updates),
        _reduce_present(replicas, found.overwrites, "max"),
        amaxes=_reduce_present(replicas, found.amaxes, "max"),
    )
    return combined, bad_micro_batches


def _check_dense(found: Gradients) -> None:
    sparse = sum(isinstance(grad, tf.IndexedSlices) for own in found.gradients for grad in own)
    if sparse:
        raise ValueError(
            "Expected dense gradients where several replicas train. "
            f"Received: {sparse} sparse gradients"
        )


def _reduce_present(
    replicas: Replicas, groups: Sequence[Sequence[Any]], op: ReduceOp = "mean"
) -> list[list[Any]]:
    """All values that are not None in one call; None stays None."""
    present = [value for value in chain.from_iterable(groups) if value is not None]
    reduced = iter(replicas.all_reduce(present, op) if present else [])
    return [[None if value is None else next(reduced) for value in own] for own in groups]


def _reduce_statistics(
    replicas: Replicas, before: NonTrainable, after: NonTrainable
) -> NonTrainable:
    """The mean of the floats that changed; all other values unchanged."""
    statistics = [
        [
            new if new is not old and new.dtype.is_floating else None
            for old, new in zip(*own, strict=True)
        ]
        for own in zip(before, after, strict=True)
    ]
    means = _reduce_present(replicas, statistics)
    return [
        [new if mean is None else mean for new, mean in zip(*own, strict=True)]
        for own in zip(after, means, strict=True)
    ]

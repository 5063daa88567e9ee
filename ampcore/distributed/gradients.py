"""The exchange of a step: the only communication between replicas in it."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import tensorflow as tf

from ampcore.distributed.compression import GradientDtype, mean_in_16_bits
from ampcore.distributed.replicas import Replicas
from ampcore.models.gradients import Gradients
from ampcore.models.task import NonTrainable

Tensor = Any


def all_reduce_gradients(  # noqa: PLR0917 - the last three have defaults
    replicas: Replicas,
    before: NonTrainable,
    found: Gradients,
    bad_micro_batches: Tensor,
    gradient_dtype: GradientDtype = "float32",
    scales: Sequence[Tensor] = (),
    *,
    average_statistics: bool = True,
) -> tuple[Gradients, Tensor]:
    """Combine the results of all replicas once per step, so that all make the same update.

    Losses and gradients become their means, statistics of the forward pass too; of overwritten
    variables (Keras's float8 scales and amax histories) and of amaxes the largest value counts, as
    between micro-batches. Infinities and NaN propagate through the mean, so that all replicas agree
    whether the step is skipped, without further communication.

    Args:
        replicas: The replicas of the job; with one, everything is returned unchanged.
        before: The non-trainable values before the step: values that are still the same object
            did not change. Integers are those of this replica: see `DropoutSeeds`.
        found: The unscaled float32 gradients of this replica.
        bad_micro_batches: How many micro-batches had non-finite gradients, float32.
        gradient_dtype: The dtype in which gradients travel.
        scales: The loss scale of each network, which float16 gradients keep on the way.
        average_statistics: False: each replica keeps its own statistics.

    Returns:
        The combined gradients, which cannot be recomputed, and the sum of the bad micro-batches.

    Raises:
        ValueError: For a sparse gradient: rows of different replicas have no common mean.
    """
    if replicas.size == 1:
        return found, bad_micro_batches
    _check_dense(found)
    statistics = _statistics(before, found.state_updates) if average_statistics else []
    gradients = list(_present(found.gradients))
    # The loss and the statistics come first: they share a bucket with the gradients of the first
    # layers, which are ready last.
    means = [*found.losses, bad_micro_batches, *_present(statistics)]
    if gradient_dtype == "float32":
        reduced = replicas.all_reduce([*means, *gradients])
        means, gradients = reduced[: len(means)], reduced[len(means) :]
    else:
        means = replicas.all_reduce(means)
        factors = _factors(found, scales) if gradient_dtype == "float16" else None
        gradients = mean_in_16_bits(replicas, gradients, gradient_dtype, factors)
    largest = [*_present(found.overwrites), *_present(found.amaxes)]
    largest = replicas.all_reduce(largest, "max") if largest else []
    losses, others = means[: len(found.losses)], iter(means[len(found.losses) + 1 :])
    bad = means[len(found.losses)] * replicas.size
    rest = iter(largest)
    combined = Gradients(
        losses,
        _restored(found.gradients, iter(gradients)),
        _with_means(found.state_updates, statistics, others),
        _restored(found.overwrites, rest),
        amaxes=_restored(found.amaxes, rest),
    )
    return combined, bad


def _check_dense(found: Gradients) -> None:
    sparse = sum(isinstance(grad, tf.IndexedSlices) for own in found.gradients for grad in own)
    if sparse:
        raise ValueError(
            "Expected dense gradients where several replicas train. "
            f"Received: {sparse} sparse gradients"
        )


def _present(groups: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """All values that are not None."""
    return (value for value in chain.from_iterable(groups) if value is not None)


def _restored(groups: Sequence[Sequence[Any]], values: Iterator[Any]) -> list[list[Any]]:
    """The groups with the next values in the places of those that are not None."""
    return [[None if value is None else next(values) for value in own] for own in groups]


def _factors(found: Gradients, scales: Sequence[Tensor]) -> list[Tensor]:
    """The loss scale of each gradient."""
    rows = zip(found.gradients, scales, strict=True)
    return [scale for own, scale in rows for grad in own if grad is not None]


def _statistics(before: NonTrainable, after: NonTrainable) -> list[list[Any]]:
    """The floats that changed; None for all other values."""
    return _choose(before, after, lambda old, new: new is not old and new.dtype.is_floating)


def _choose(
    before: NonTrainable, after: NonTrainable, wanted: Callable[[Any, Any], bool]
) -> list[list[Any]]:
    return [
        [new if wanted(old, new) else None for old, new in zip(*own, strict=True)]
        for own in zip(before, after, strict=True)
    ]


def _with_means(
    values: NonTrainable, statistics: Sequence[Sequence[Any]], means: Iterator[Tensor]
) -> NonTrainable:
    """The values, with the means in the places of the statistics."""
    if not statistics:
        return values
    return [
        [value if own is None else next(means) for value, own in zip(*rows, strict=True)]
        for rows in zip(values, statistics, strict=True)
    ]

"""The exchange of a step: the only communication between replicas in it."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import tensorflow as tf

from ampcore.distributed.compression import GradientDtype, mean_in_16_bits
from ampcore.distributed.replicas import Replicas
from ampcore.distributed.sparse_gradients import mean_of_rows, shard_norms
from ampcore.models.gradients import Gradients
from ampcore.models.task import NonTrainable
from ampcore.precision import map_values

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
    sharded: Sequence[Sequence[bool]] | None = None,
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
        sharded: For each trainable variable, whether it holds the rows of this replica only. Its
            gradient, the sum over all replicas already, becomes the mean and stays here; the norms
            of all replicas are exchanged instead (`Gradients.shard_norms`). None: no variable.

    Returns:
        The combined gradients, which cannot be recomputed, and the sum of the bad micro-batches.
        Sparse gradients stay sparse, without duplicate rows.
    """
    if replicas.size == 1:
        return found, bad_micro_batches
    found, shards = _without_shards(replicas, found, sharded)
    norms = [shard_norms(replicas, _not_none(own)) if _not_none(own) else None for own in shards]
    found, sparse = _without_sparse(found)
    statistics = _statistics(before, found.state_updates) if average_statistics else []
    gradients = list(_present(found.gradients))
    # The loss and the statistics come first: they share a bucket with the gradients of the first
    # layers, which are ready last.
    means = [*found.losses, bad_micro_batches, *_not_none(norms), *_present(statistics)]
    if gradient_dtype == "float32":
        reduced = replicas.all_reduce([*means, *gradients])
        means, gradients = reduced[: len(means)], reduced[len(means) :]
    else:
        means = replicas.all_reduce(means)
        factors = _factors(found, scales) if gradient_dtype == "float16" else None
        gradients = mean_in_16_bits(replicas, gradients, gradient_dtype, factors)
    rows = iter(mean_of_rows(replicas, list(_present(sparse))))
    largest = [*_present(found.overwrites), *_present(found.amaxes)]
    largest = replicas.all_reduce(largest, "max") if largest else []
    rest = iter(means)
    losses = [next(rest) for _ in found.losses]
    bad = next(rest) * replicas.size
    norms = [None if own is None else next(rest) * replicas.size for own in norms]
    maxima = iter(largest)
    dense = _restored(found.gradients, iter(gradients))
    combined = Gradients(
        losses,
        _merged(_merged(dense, _restored(sparse, rows)), shards),
        _with_means(found.state_updates, statistics, rest),
        _restored(found.overwrites, maxima),
        amaxes=_restored(found.amaxes, maxima),
        shard_norms=norms,
    )
    return combined, bad


def _without_shards(
    replicas: Replicas, found: Gradients, sharded: Sequence[Sequence[bool]] | None
) -> tuple[Gradients, list[list[Any]]]:
    """The gradients with None for those of shards; and these, divided by the replicas."""
    if sharded is None:
        return found, [[None] * len(own) for own in found.gradients]
    pairs = [list(zip(*own, strict=True)) for own in zip(found.gradients, sharded, strict=True)]
    others = [[None if is_shard else grad for grad, is_shard in own] for own in pairs]
    shards = [
        map_values(
            lambda value: value / replicas.size,
            [grad if is_shard else None for grad, is_shard in own],
        )
        for own in pairs
    ]
    return found._replace(gradients=others), shards


def _without_sparse(found: Gradients) -> tuple[Gradients, list[list[Any]]]:
    """The gradients with None for sparse ones; and these, with None for all others."""
    is_sparse = [[isinstance(grad, tf.IndexedSlices) for grad in own] for own in found.gradients]
    pairs = [list(zip(*own, strict=True)) for own in zip(found.gradients, is_sparse, strict=True)]
    dense = [[None if sparse else grad for grad, sparse in own] for own in pairs]
    rest = [[grad if sparse else None for grad, sparse in own] for own in pairs]
    return found._replace(gradients=dense), rest


def _merged(groups: Sequence[Sequence[Any]], others: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The values of `groups`, with those of `others` in the places of None."""
    return [
        [other if value is None else value for value, other in zip(*own, strict=True)]
        for own in zip(groups, others, strict=True)
    ]


def _not_none(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not None]


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

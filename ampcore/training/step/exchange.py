"""The exchange of a step: the only communication between ranks in it."""

from collections.abc import Sequence
from enum import Enum, auto
from itertools import chain, compress, islice
from typing import Any

import tensorflow as tf

from ampcore.distributed.communicator import Communicator
from ampcore.distributed.compression import GradientDtype, mean_in_16_bits
from ampcore.distributed.sparse_gradients import mean_of_rows, shard_norms
from ampcore.precision import map_values
from ampcore.training.step.gradients import NetworkGradients, StepGradients

Tensor = Any


class Kind(Enum):
    """What the ranks do with a value of a step."""

    LOSS = auto()
    STATISTIC = auto()
    """A float that the forward pass has changed."""
    GRADIENT = auto()
    ROWS = auto()
    """A sparse gradient of a table that every rank has."""
    LARGEST = auto()
    """A value of which the largest counts, as between micro-batches."""
    LOCAL = auto()
    """A value that stays as it is, such as the gradient of rows that this rank alone has."""


def all_reduce_gradients(
    communicator: Communicator,
    step: StepGradients,
    gradient_dtype: GradientDtype = "float32",
    scales: Sequence[Tensor] = (),
    *,
    average_statistics: bool = True,
    sharded: Sequence[Sequence[bool]] | None = None,
) -> StepGradients:
    """Combine the results of all ranks once per step, so that all make the same update.

    Losses and gradients become their means, statistics of the forward pass too; of overwritten
    variables (Keras's float8 scales and amax histories) and of amaxes the largest value counts, as
    between micro-batches. Infinities and NaN propagate through the mean, so that all ranks agree
    whether the step is skipped, without further communication.

    Args:
        communicator: The ranks of the job; with one, everything is returned unchanged.
        step: The unscaled float32 gradients of this rank. Of its state updates, integers are
            those of this rank: see `DropoutSeeds`.
        gradient_dtype: The dtype in which gradients travel.
        scales: The loss scale of each network, which float16 gradients keep on the way.
        average_statistics: False: each rank keeps its own statistics.
        sharded: For each trainable variable, whether it holds the rows of this rank only. Its
            gradient, the sum over all ranks already, becomes the mean and stays here; the norms
            of all ranks are exchanged instead. None: no variable.

    Returns:
        The combined gradients, which cannot be recomputed, and the sum of the micro-batches with
        non-finite ones. Sparse gradients stay sparse, without duplicate rows.
    """
    if communicator.size == 1:
        return step
    is_shard = sharded or [[False] * len(network.gradients) for network in step.networks]
    rows = list(zip(step.networks, is_shard, strict=True))
    networks = [_with_shard_means(*row, communicator.size) for row in rows]
    shards = [_shards(*row) for row in zip(networks, is_shard, strict=True)]
    norms = [shard_norms(communicator, grads) for grads in shards if grads]
    values = _Values(networks, [_kinds(*row, average_statistics) for row in rows])
    factors = _factors(step.networks, is_shard, scales) if gradient_dtype == "float16" else None
    # The loss and the statistics come first: they share a bucket with the gradients of the first
    # layers, which are ready last.
    lists = [
        values.of(Kind.LOSS),
        [step.nonfinite_micro_batches],
        norms,
        values.of(Kind.STATISTIC),
    ]
    gradients = values.of(Kind.GRADIENT)
    if gradient_dtype == "float32":
        *lists, gradients = _all_reduce(communicator, [*lists, gradients])
    else:
        lists = _all_reduce(communicator, lists)
        gradients = mean_in_16_bits(communicator, gradients, gradient_dtype, factors)
    losses, [nonfinite], norms, statistics = lists
    values.replace(Kind.LOSS, losses)
    values.replace(Kind.STATISTIC, statistics)
    values.replace(Kind.GRADIENT, gradients)
    values.replace(Kind.ROWS, mean_of_rows(communicator, values.of(Kind.ROWS)))
    if largest := values.of(Kind.LARGEST):
        values.replace(Kind.LARGEST, communicator.all_reduce(largest, "max"))
    sums = iter([norm * communicator.size for norm in norms])
    return StepGradients(
        [
            _with_norm_inputs(network, flags, next(sums)) if grads else network
            for network, flags, grads in zip(values.networks(), is_shard, shards, strict=True)
        ],
        nonfinite * communicator.size,
    )


class _Values:
    """The values of all networks in one list, each with its kind."""

    def __init__(self, networks: list[NetworkGradients], kinds: list[Any]) -> None:
        self._structure = networks
        self._values, self._kinds = tf.nest.flatten(networks), tf.nest.flatten(kinds)

    def of(self, kind: Kind) -> list[Any]:
        return [self._values[place] for place in self._places(kind)]

    def replace(self, kind: Kind, values: Sequence[Any]) -> None:
        for place, value in zip(self._places(kind), values, strict=True):
            self._values[place] = value

    def networks(self) -> list[NetworkGradients]:
        packed: list[NetworkGradients] = tf.nest.pack_sequence_as(self._structure, self._values)
        return packed

    def _places(self, kind: Kind) -> list[int]:
        return [place for place, its_kind in enumerate(self._kinds) if its_kind is kind]


def _shards(network: NetworkGradients, is_shard: Sequence[bool]) -> list[Any]:
    """The gradients of rows that this rank alone has."""
    return [grad for grad in compress(network.gradients, is_shard) if grad is not None]


def _factors(
    networks: Sequence[NetworkGradients],
    is_shard: Sequence[Sequence[bool]],
    scales: Sequence[Tensor],
) -> list[Tensor]:
    """The loss scale of each dense gradient."""
    return [
        scale
        for network, flags, scale in zip(networks, is_shard, scales, strict=True)
        for grad, shard in zip(network.gradients, flags, strict=True)
        if _kind_of_gradient(grad, shard) is Kind.GRADIENT
    ]


def _with_shard_means(
    network: NetworkGradients, is_shard: Sequence[bool], size: int
) -> NetworkGradients:
    means = [
        map_values(lambda value: value / size, [grad])[0] if shard else grad
        for grad, shard in zip(network.gradients, is_shard, strict=True)
    ]
    return network._replace(gradients=means, recompute_gradients=None)


def _kinds(network: NetworkGradients, is_shard: Sequence[bool], average_statistics: bool) -> Any:
    """The kind of each value of a network, in the structure of its gradients."""
    return network._replace(
        loss=Kind.LOSS,
        gradients=[
            _kind_of_gradient(grad, shard)
            for grad, shard in zip(network.gradients, is_shard, strict=True)
        ],
        state_updates={
            index: Kind.STATISTIC if average_statistics and value.dtype.is_floating else Kind.LOCAL
            for index, value in network.state_updates.items()
        },
        overwrites=dict.fromkeys(network.overwrites, Kind.LARGEST),
        amaxes=[Kind.LARGEST for _ in network.amaxes],
    )


def _kind_of_gradient(grad: Any, is_shard: bool) -> Kind:
    if grad is None or is_shard:
        return Kind.LOCAL
    return Kind.ROWS if isinstance(grad, tf.IndexedSlices) else Kind.GRADIENT


def _all_reduce(communicator: Communicator, lists: Sequence[list[Tensor]]) -> list[list[Tensor]]:
    """The means of several lists of tensors, in one call."""
    reduced = iter(communicator.all_reduce(list(chain.from_iterable(lists))))
    return [list(islice(reduced, len(values))) for values in lists]


def _with_norm_inputs(
    network: NetworkGradients, is_shard: Sequence[bool], norms: Tensor
) -> NetworkGradients:
    """The norms of all ranks take the place of the gradients of their rows."""
    whole_grads = [
        grad for grad, shard in zip(network.gradients, is_shard, strict=True) if not shard
    ]
    return network._replace(norm_inputs=[*whole_grads, norms])

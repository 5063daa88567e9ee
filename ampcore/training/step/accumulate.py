"""Gradient accumulation: several micro-batches, one update."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ampcore.data import Batch
from ampcore.models.seeds import MicroBatchShard
from ampcore.models.stateless_call import StateUpdates, with_updates
from ampcore.models.task import NonTrainable
from ampcore.phase_scopes import phase_scope
from ampcore.phases import Phase
from ampcore.precision import each_finite, global_norm, sum_duplicate_rows
from ampcore.training.step.batch_slicing import slice_batch
from ampcore.training.step.gradients import NetworkGradients, StepGradients

Tensor = Any
ComputeGradients = Callable[[NonTrainable, Batch, Tensor], list[NetworkGradients]]
"""`network_gradients` of a task at the current loss scales."""


def accumulate_gradients(
    compute: ComputeGradients,
    shard: MicroBatchShard,
    non_trainable: NonTrainable,
    batch: Batch,
    seed: Tensor,
) -> StepGradients:
    """The mean losses and gradients of `shard.count` equal parts of `batch`, one after the other.

    Sparse gradients stay sparse, with the duplicate rows of all parts summed. For values that
    overwrite variables, and amaxes of float8 tensors, the largest is used, as in Keras.

    Args:
        compute: Computes the gradients of one part from the non-trainable values after the previous
            part.
        shard: The number of parts, and which of the step's micro-batches they are.
        non_trainable: The values before the first part.
        batch: The examples of all parts; `shard.count` divides their number.
        seed: Int64 (2,), the seed of the step.

    Returns:
        The gradients, which can be recomputed if there is one part and all are dense.
    """
    if shard.count == 1:
        networks = compute(non_trainable, batch, shard.seed(seed, 0))
        nonfinite = tf.constant(0.0)
    else:
        networks, nonfinite = _accumulate(compute, shard, non_trainable, batch, seed)
    # Once, after the last part: collecting the rows of a part requires a static shape.
    return StepGradients(_with_summed_rows(networks), nonfinite)


def _with_summed_rows(networks: list[NetworkGradients]) -> list[NetworkGradients]:
    if not any(isinstance(grad, tf.IndexedSlices) for net in networks for grad in net.gradients):
        return networks
    return [
        network._replace(gradients=sum_duplicate_rows(network.gradients), recompute_gradients=None)
        for network in networks
    ]


class _Sums(NamedTuple):
    """What a loop over parts carries of one network."""

    loss: Tensor
    gradients: dict[int, Any]
    """By the index of its variable, the sum; of sparse ones TensorArrays of values and rows."""
    overwrites: dict[int, Tensor]
    amaxes: list[Tensor]
    state_updates: StateUpdates


def _accumulate(
    compute: ComputeGradients,
    shard: MicroBatchShard,
    non_trainable: NonTrainable,
    batch: Batch,
    seed: Tensor,
) -> tuple[list[NetworkGradients], Tensor]:
    count = shard.count
    size = batch.parts[0].shape[0] // count

    def part(index: Tensor, updates: Sequence[StateUpdates]) -> list[NetworkGradients]:
        with phase_scope(Phase.INPUT):
            micro_batch = slice_batch(batch, index, size)
        values = [with_updates(*network) for network in zip(non_trainable, updates, strict=True)]
        return compute(values, micro_batch, shard.seed(seed, index))

    def body(index: Tensor, nonfinite: Tensor, sums: list[_Sums]) -> tuple[Any, ...]:
        networks = part(index, [network.state_updates for network in sums])
        sums = [_add(*network, index) for network in zip(sums, networks, strict=True)]
        return index + 1, nonfinite + _has_nonfinite(networks), sums

    first = part(tf.constant(0), [{} for _ in non_trainable])
    _, nonfinite, sums = tf.while_loop(
        lambda index, *_: index < count,
        body,
        (tf.constant(1), _has_nonfinite(first), [_first_sums(network, count) for network in first]),
        maximum_iterations=count - 1,
    )
    means = [_mean(*network, count) for network in zip(sums, first, strict=True)]
    return means, nonfinite


def _has_nonfinite(networks: Sequence[NetworkGradients]) -> Tensor:
    gradients = [network.gradients for network in networks]
    finite = tf.reduce_all(each_finite(gradients, [global_norm(grads) for grads in gradients]))
    return tf.cast(tf.logical_not(finite), tf.float32)


def _first_sums(network: NetworkGradients, count: int) -> _Sums:
    return _Sums(
        network.loss,
        {index: _first_sum(grad, count) for index, grad in _present(network.gradients)},
        network.overwrites,
        network.amaxes,
        network.state_updates,
    )


def _add(sums: _Sums, network: NetworkGradients, part: Tensor) -> _Sums:
    return _Sums(
        sums.loss + network.loss,
        {
            index: _add_gradient(sums.gradients[index], part, grad)
            for index, grad in _present(network.gradients)
        },
        tf.nest.map_structure(tf.maximum, sums.overwrites, network.overwrites),
        tf.nest.map_structure(tf.maximum, sums.amaxes, network.amaxes),
        network.state_updates,
    )


def _mean(sums: _Sums, first: NetworkGradients, count: int) -> NetworkGradients:
    gradients: list[Any] = [None] * len(first.gradients)
    for index, grad in _present(first.gradients):
        gradients[index] = _mean_gradient(sums.gradients[index], grad, count)
    return NetworkGradients(
        sums.loss / count, gradients, sums.state_updates, sums.overwrites, sums.amaxes
    )


def _present(gradients: Sequence[Any]) -> list[tuple[int, Any]]:
    """The gradients that are not None, with their indices: a loop carries tensors only."""
    return [(index, grad) for index, grad in enumerate(gradients) if grad is not None]


def _first_sum(grad: Any, count: int) -> Any:
    if not isinstance(grad, tf.IndexedSlices):
        return grad
    parts = (grad.values, grad.indices)
    arrays = [tf.TensorArray(part.dtype, size=count, element_shape=part.shape) for part in parts]
    return [array.write(0, part) for array, part in zip(arrays, parts, strict=True)]


def _add_gradient(total: Any, part: Tensor, grad: Any) -> Any:
    if not isinstance(grad, tf.IndexedSlices):
        return total + grad
    values, indices = total
    return [values.write(part, grad.values), indices.write(part, grad.indices)]


def _mean_gradient(total: Any, grad: Any, count: int) -> Any:
    if not isinstance(grad, tf.IndexedSlices):
        return total / count
    values, indices = (array.concat() for array in total)
    return tf.IndexedSlices(values / count, indices, grad.dense_shape)

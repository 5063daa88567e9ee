"""BatchNormalization over the examples of all ranks.

Each rank computes the moments of its own examples; all of them combine these, so that a batch is
normalised as one process would normalise the batches of all ranks together. Gradients flow back
through the combination: an output of one rank depends on the inputs of all.

Source: Chan et al. 1979, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import keras
import tensorflow as tf

from ampcore.distributed.communicator import Communicator
from ampcore.keras_internals import MOMENTS, flatten_layers, replaced_methods
from ampcore.models.task import Network
from ampspec.errors import InvalidModel

Tensor = Any
Layer = Any

_FIELD: Final = "runtime.exchange.batch_norm"


@contextmanager
def synchronized_moments(communicator: Communicator, networks: Sequence[Network]) -> Iterator[None]:
    """While it is open, these networks are traced with the moments of all ranks."""
    layers = [layer for network in networks for layer in batch_norm_layers(network.model)]
    with replaced_methods(
        ((layer, partial(_moments, communicator, layer)) for layer in layers), MOMENTS
    ):
        yield


def batch_norm_layers(model: Any) -> list[Layer]:
    """All layers of a model that normalise by the moments of a batch."""
    kind = keras.layers.BatchNormalization
    return [layer for layer in flatten_layers(model) if isinstance(layer, kind)]


def check_synchronizable(networks: Sequence[Network]) -> None:
    """Raise InvalidModel for a layer that computes its moments in another way."""
    for network in networks:
        for layer in batch_norm_layers(network.model):
            is_custom = getattr(type(layer), MOMENTS) is not getattr(
                keras.layers.BatchNormalization, MOMENTS
            )
            if is_custom or layer.synchronized:
                raise InvalidModel(
                    _FIELD,
                    expected="local or mean for a layer that computes its own moments",
                    received=f"sync and the layer {layer.path or layer.name}",
                )


def _moments(communicator: Communicator, layer: Layer, inputs: Tensor, mask: Tensor | None) -> Any:
    if mask is not None:
        raise InvalidModel(
            _FIELD,
            expected="local or mean for inputs with a mask",
            received=f"sync and the layer {layer.path or layer.name}",
        )
    mean, variance = tf.nn.moments(inputs, layer._reduction_axes)
    means, variances = tf.unstack(_gathered(communicator, tf.stack([mean, variance])), axis=1)
    mean = tf.reduce_mean(means, axis=0)
    return mean, tf.reduce_mean(variances + tf.square(means - mean), axis=0)


def _gathered(communicator: Communicator, value: Tensor) -> Tensor:
    """The values of all ranks, (ranks, …), differentiable by those of all of them."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def gather(rank_value: Tensor) -> Any:
        [values] = communicator.all_gather([rank_value[tf.newaxis]])

        def gradient(upstream: Tensor) -> Tensor:
            # Each rank has only the part of its own loss, and needs those of all losses.
            [summed] = communicator.all_reduce([upstream], "sum")
            return summed[communicator.rank]

        return values, gradient

    return gather(value)

"""Records the outputs of all layers of a task while its losses are traced."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

import tensorflow as tf

from ampcore.models.task import Task
from ampcore.precision.layer_paths import walk_layers
from ampcore.precision.layer_products import replaced_calls

Tensor = Any


class LayerRef(NamedTuple):
    """A layer: its network, its path as a spec's overrides match it, and its kind."""

    network: str
    path: str
    kind: str
    """The name of its Keras class."""


class LayerOutput(NamedTuple):
    """One tensor that one call of a layer returned, of a floating dtype."""

    layer_ref: LayerRef
    tensor: Tensor


@contextmanager
def layer_outputs(task: Task) -> Iterator[list[LayerOutput]]:
    """A context in which the list collects the outputs of layers, in the order of their calls.

    Enter it while a function is traced. The tensors are the inputs of the next layers, so that
    gradients with respect to them can be computed. Layers inside a loop, such as the cell of a
    recurrent layer, are left out because their values cannot leave the loop; so are layers that the
    task does not call.
    """
    outputs: list[LayerOutput] = []
    graph = tf.compat.v1.get_default_graph()

    def record(layer_ref: LayerRef, result: Any) -> None:
        for tensor in tf.nest.flatten(result):
            if tf.is_tensor(tensor) and tensor.dtype.is_floating and tensor.graph is graph:
                outputs.append(LayerOutput(layer_ref, tensor))

    watched = [
        (found.layer, LayerRef(network.name, found.info.path, found.info.kind))
        for network in task.networks
        for found in walk_layers(network.model)
    ]
    with replaced_calls(
        (layer, _recording(layer.call, layer_ref, record)) for layer, layer_ref in watched
    ):
        yield outputs


def _recording(call: Any, layer_ref: LayerRef, record: Any) -> Any:
    @wraps(call)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        record(layer_ref, result)
        return result

    return recorded

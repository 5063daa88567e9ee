"""Records the outputs of all layers of a task while its losses are traced."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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

    with replaced_layer_calls(task, lambda ref, call: _recording(call, ref, record)):
        yield outputs


@contextmanager
def replaced_layer_calls(task: Task, replace: Callable[[LayerRef, Any], Any]) -> Iterator[None]:
    """A context in which every layer's `call` is replaced by `replace(layer, call)`."""
    watched = [
        (found.layer, LayerRef(network.name, found.info.path, found.info.kind))
        for network in task.networks
        for found in walk_layers(network.model)
    ]
    with ExitStack() as stack:
        for network in task.networks:
            # Before the calls are replaced: it replaces some itself.
            stack.enter_context(network.dtypes.applied())
        stack.enter_context(
            replaced_calls(
                (layer, wraps(layer.call)(replace(layer_ref, layer.call)))
                for layer, layer_ref in watched
            )
        )
        yield


def _recording(call: Any, layer_ref: LayerRef, record: Any) -> Any:
    def recorded(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        record(layer_ref, result)
        return result

    return recorded

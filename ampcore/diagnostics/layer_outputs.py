"""Records the outputs of all layers of a task while its losses are traced."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import Any, NamedTuple

import tensorflow as tf

from ampcore.keras_internals import replaced_methods
from ampcore.models.task import Task
from ampcore.precision.layers.in_place import replaced_attributes
from ampcore.precision.layers.layer_paths import walk_layers

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
    is_loss: bool = False
    """Whether it is a loss that the layer has added, or that a regularizer makes of a weight."""


@contextmanager
def layer_outputs(task: Task, *, losses: bool = False) -> Iterator[list[LayerOutput]]:
    """A context in which the list collects the outputs of layers, in the order of their calls.

    With `losses` also the losses of layers, each after the output of its layer, and those of their
    weights at the end.

    Enter it while a function is traced. The tensors are the inputs of the next layers, so that
    gradients with respect to them can be computed. Layers inside a loop, such as the cell of a
    recurrent layer, are left out because their values cannot leave the loop; so are layers that the
    task does not call.
    """
    outputs: list[LayerOutput] = []
    graph = tf.compat.v1.get_default_graph()

    def record(layer_ref: LayerRef, result: Any, *, is_loss: bool = False) -> None:
        for tensor in tf.nest.flatten(result):
            if tf.is_tensor(tensor) and tensor.dtype.is_floating and tensor.graph is graph:
                outputs.append(LayerOutput(layer_ref, tensor, is_loss))

    with ExitStack() as stack:
        stack.enter_context(
            replaced_layer_calls(task, lambda ref, call: _recording(call, ref, record))
        )
        if losses:
            stack.enter_context(_recorded_losses(task, partial(record, is_loss=True)))
        yield outputs


@contextmanager
def _recorded_losses(task: Task, record: Callable[[LayerRef, Any], None]) -> Iterator[None]:
    """A context in which the losses of layers, and of the weights of layers, are recorded."""
    layers = list(_watched(task))
    add_loss_calls = [
        (layer, _recording_loss(layer.add_loss, ref, record)) for layer, ref in layers
    ]
    owners = variable_owners(task)
    regularizers = [
        (variable, _recording(variable.regularizer, owners[id(variable)], record))
        for network in task.networks
        for variable in network.model.trainable_variables
        if variable.regularizer is not None and id(variable) in owners
    ]
    with (
        replaced_methods(add_loss_calls, "add_loss"),
        replaced_attributes("regularizer", regularizers),
    ):
        yield


@contextmanager
def replaced_layer_calls(task: Task, replace: Callable[[LayerRef, Any], Any]) -> Iterator[None]:
    """A context in which every layer's `call` is replaced by `replace(layer, call)`."""
    with ExitStack() as stack:
        for network in task.networks:
            # Before the calls are replaced: it replaces some itself.
            stack.enter_context(network.dtypes.applied())
        stack.enter_context(
            replaced_methods(
                (layer, wraps(layer.call)(replace(layer_ref, layer.call)))
                for layer, layer_ref in _watched(task)
            )
        )
        yield


def variable_owners(task: Task) -> dict[int, LayerRef]:
    """By the id of each trainable variable, the innermost layer that it belongs to."""
    # A layer comes before its parts, so that the innermost one stays.
    return {
        id(variable): layer_ref
        for layer, layer_ref in _watched(task)
        for variable in layer.trainable_variables
    }


def _watched(task: Task) -> Iterator[tuple[Any, LayerRef]]:
    """The layers of the networks; a layer comes before its parts."""
    for network in task.networks:
        for entry in walk_layers(network.model):
            yield entry.layer, LayerRef(network.name, entry.info.path, entry.info.kind)


def _recording_loss(add_loss: Any, layer_ref: LayerRef, record: Any) -> Any:
    def recorded(loss: Any) -> None:
        tensors = [tf.convert_to_tensor(part) for part in tf.nest.flatten(loss)]
        record(layer_ref, tensors)
        add_loss(tensors)

    return recorded


def _recording(call: Any, layer_ref: LayerRef, record: Any) -> Any:
    def recorded(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        record(layer_ref, result)
        return result

    return recorded

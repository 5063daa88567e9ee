"""Reads the graph of a functional or sequential Keras model as entries of a spec's `layers`."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import keras

from ampcore.conversion.errors import NotConvertible
from ampcore.conversion.layer import layer_of_spec
from ampspec.layers.base import Layer
from ampspec.layers.catalog import LAYERS
from ampspec.layers.entry import Reuse
from ampspec.layers.graph import INPUT

Document = dict[str, Any]

MERGING_OPERATIONS: Final = frozenset({"Add", "Subtract", "Multiply", "Maximum", "Minimum"})
"""Operations such as `x + y` on two tensors that are layers of the grammar, too."""
NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass
class Graph:
    """The entries of a model, and the Keras layer of each one that has weights of its own."""

    inputs: dict[str, Any] = field(default_factory=dict)
    """By name, the input tensors."""
    entries: list[Document] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    layers: dict[str, Any] = field(default_factory=dict)
    """By the name of an entry, the Keras layer that it was made from."""
    names: dict[int, str] = field(default_factory=dict)
    """By the identity of a Keras layer, its entry."""
    taken: set[str] = field(default_factory=set)

    def unique(self, name: str) -> str:
        """A name that the grammar allows and no other entry has."""
        stem = NOT_ALLOWED.sub("_", name).lstrip("_.-")[:90] or "layer"
        candidate, number = stem, 0
        while candidate in self.taken:
            number += 1
            candidate = f"{stem}_{number}"
        self.taken.add(candidate)
        return candidate


def read_graph(model: Any) -> Graph:
    """The graph of a built functional or sequential model. Raises NotConvertible."""
    network = functional(model)
    graph = Graph()
    tensors: dict[int, str] = {}
    for tensor in network.inputs:
        name = graph.unique(tensor._keras_history.operation.name)
        graph.inputs[name] = tensor
        tensors[id(tensor)] = name
    graph.taken.add(INPUT)  # the name of an input whose shape the data decides
    _add_nodes(graph, network, tensors, prefix="")
    graph.outputs = [tensors[id(tensor)] for tensor in network.outputs]
    return graph


def functional(model: Any) -> Any:
    """The functional model that a model is. Raises NotConvertible."""
    network = getattr(model, "_functional", None) or model
    if not isinstance(model, keras.Model) or not hasattr(network, "_nodes_by_depth"):
        raise NotConvertible(
            None,
            f"the class {type(model).__name__} has no graph of layers; expected a functional or "
            "sequential keras.Model that knows its input shape",
        )
    return network


def _add_nodes(graph: Graph, network: Any, tensors: dict[int, str], prefix: str) -> None:
    """Add an entry for each call in a network; `tensors` names its inputs, then all outputs."""
    for node in _in_order(network):
        operation = node.operation
        if isinstance(operation, keras.layers.InputLayer):
            continue
        if isinstance(operation, keras.Model):
            _add_network(graph, operation, node, tensors, f"{prefix}{operation.name}.")
            continue
        name = _add_entry(graph, node, tensors, prefix)
        if len(node.outputs) != 1:
            raise NotConvertible(operation.name, "it has several outputs")
        tensors[id(node.outputs[0])] = name


def _add_network(graph: Graph, model: Any, node: Any, tensors: dict[int, str], prefix: str) -> None:
    """Add the layers of a model inside the model, for one of its calls."""
    _check_call_arguments(model, node)
    network = functional(model)
    inside = {
        id(inner_tensor): tensors[id(outer_tensor)]
        for inner_tensor, outer_tensor in zip(network.inputs, _ordered_inputs(node), strict=True)
    }
    _add_nodes(graph, network, inside, prefix)
    for inner_tensor, outer_tensor in zip(network.outputs, node.outputs, strict=True):
        tensors[id(outer_tensor)] = inside[id(inner_tensor)]


def _in_order(network: Any) -> Iterator[Any]:
    """The calls that outputs need, each after those that it needs, in the order of creation."""
    order = {id(operation): index for index, operation in enumerate(network.operations)}
    calls = _needed_calls(network)
    for _, nodes in sorted(network._nodes_by_depth.items(), reverse=True):
        for node in sorted(nodes, key=lambda node: order.get(id(node.operation), 0)):
            if id(node) in calls:
                yield node


def _needed_calls(network: Any) -> set[int]:
    """The identities of the calls whose outputs are inputs of others, masks apart.

    Keras adds the operations that compute a mask to the graph; the layers of a spec pass masks on
    by themselves.
    """
    made_by = {
        id(tensor): node
        for nodes in network._nodes_by_depth.values()
        for node in nodes
        for tensor in node.outputs
    }
    waiting, calls = list(network.outputs), set()
    while waiting:
        node = made_by[id(waiting.pop())]
        if id(node) not in calls:
            calls.add(id(node))
            waiting += _ordered_inputs(node)
    return calls


def _add_entry(graph: Graph, node: Any, tensors: dict[int, str], prefix: str) -> str:
    operation = node.operation
    inputs = [tensors[id(tensor)] for tensor in _ordered_inputs(node)]
    if (first := graph.names.get(id(operation))) is not None:
        name = graph.unique(first)
        entry: Layer | Reuse = Reuse(reuse=first, name=name, inputs=tuple(inputs))
        _check_same_call(graph, first, node)
    else:
        name = graph.unique(f"{prefix}{operation.name}")
        graph.names[id(operation)] = name
        layer = _layer(node)
        entry = layer.model_copy(update={"name": name, "inputs": tuple(inputs)})
        graph.layers[name] = operation
    graph.entries.append(entry.model_dump(mode="json"))
    return name


def _layer(node: Any) -> Layer:
    operation = node.operation
    if not isinstance(operation, keras.layers.Layer):
        return _merging_layer(node)
    layer = layer_of_spec(operation, tuple(node.outputs[0].shape))
    _check_call_arguments(operation, node)
    return layer.model_copy(update=_call_fields(layer, node))


def _merging_layer(node: Any) -> Layer:
    """The layer for an operation such as `x + y`."""
    kind = type(node.operation).__name__
    ranks = {len(tensor.shape) for tensor in node.input_tensors}
    if kind not in MERGING_OPERATIONS or len(node.input_tensors) != 2 or len(ranks) != 1:
        raise NotConvertible(
            node.operation.name,
            f"it is the operation {kind}, not a layer: use a layer of keras.layers",
        )
    return LAYERS[kind].model_validate({"layer": kind})


def _call_fields(layer: Layer, node: Any) -> dict[str, Any]:
    """The arguments of the call that are fields of the grammar."""
    arguments = _bound_arguments(node)
    return {name: arguments[name] for name in layer.call_fields & arguments.keys()}


def _check_same_call(graph: Graph, first: str, node: Any) -> None:
    """Raise NotConvertible for a second call with other arguments than the first."""
    if isinstance(node.operation, keras.layers.Layer):
        _check_call_arguments(node.operation, node)
        layer = layer_of_spec(node.operation, tuple(node.outputs[0].shape))
        fields = {name: getattr(layer, name) for name in layer.call_fields}
        [entry] = [entry for entry in graph.entries if entry["name"] == first]
        if fields | _call_fields(layer, node) != fields | {
            name: entry[name] for name in fields if name in entry
        }:
            raise NotConvertible(node.operation.name, "its calls have different arguments")


def _check_call_arguments(operation: Any, node: Any) -> None:
    """Raise NotConvertible for an argument of the call that a spec cannot hold."""
    for name, value in _bound_arguments(node).items():
        # Keras replaces a `training` in the graph by that of the call of the whole model.
        if value is None or name == "training" or name.endswith("mask"):
            continue
        if name == "initial_state" or not (value is False or _holds_tensors(value)):
            text = "tensors" if _holds_tensors(value) else repr(value)
            raise NotConvertible(operation.name, f"it is called with {name}={text}")


def _bound_arguments(node: Any) -> dict[str, Any]:
    """The arguments of a call by name."""
    signature = inspect.signature(node.operation.call)
    bound = signature.bind(*node.arguments.args, **node.arguments.kwargs)
    return {
        name: value
        for name, value in bound.arguments.items()
        if signature.parameters[name].kind is not inspect.Parameter.VAR_KEYWORD
    }


def _ordered_inputs(node: Any) -> list[Any]:
    """The tensors of a call without masks; those of an attention as query, value, key."""
    if not isinstance(node.operation, keras.layers.Layer) or node.is_input:
        return list(node.input_tensors)
    arguments = _bound_arguments(node)
    names = [name for name in arguments if not name.endswith("mask")]
    if "query" in arguments:
        names = [name for name in ("query", "value", "key") if name in arguments]
    flat = keras.tree.flatten([arguments[name] for name in names])
    return [value for value in flat if keras.utils.is_keras_tensor(value)]


def _holds_tensors(value: Any) -> bool:
    return any(map(keras.utils.is_keras_tensor, keras.tree.flatten(value)))

"""The layer tables of real Keras models, of any kind, for the preflight."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from keras import layers

from ampcore.conversion.layer import layer_for_shapes
from ampcore.keras_internals import calls_in_network
from ampcore.models.task import Network, Task
from ampcore.precision import LayerPolicies
from ampcore.precision.layers.layer_paths import LayerEntry, applied_layer, is_network, walk_layers
from ampspec.layers.base import Layer
from ampspec.layers.inference import Inference, Shape, ShapeError
from ampspec.preflight.layer_table import Dimension, LayerRow, LayerTable, count_saved_activations


def tables_from_keras(task: Task, policies: LayerPolicies) -> tuple[LayerTable, ...] | None:
    """The layer tables of a task's networks, with their actual dtypes.

    None if a network is a subclassed model, whose layers do not know their inputs.
    """
    if not all(is_network(network.model) for network in task.networks):
        return None
    return tuple(_table(network, policies) for network in task.networks)


def _table(network: Network, policies: LayerPolicies) -> LayerTable:
    with network.dtypes.applied():
        return _table_of_layers(network, policies)


def _table_of_layers(network: Network, policies: LayerPolicies) -> LayerTable:
    entries = list(walk_layers(network.model))
    # A layer inside another one is counted with it.
    outer = [entry for entry in entries if entry.parent is None or is_network(entry.parent)]
    rows = (
        _row(entry, calls_in_network(entry.layer, entry.parent or network.model), entries, policies)
        for entry in outer
    )
    return LayerTable(network.name, tuple(rows))


def _row(
    entry: LayerEntry, nodes: list[Any], entries: list[LayerEntry], policies: LayerPolicies
) -> LayerRow:
    layer, path = entry.layer, entry.info.path
    shapes = layer_for_shapes(layer)
    calls = [_measure(layer, entry.info.kind, shapes, node) for node in nodes]
    dtypes = policies.layers.get(path)
    return LayerRow(
        path,
        entry.info.kind,
        calls[0].input,
        calls[0].output,
        trainable=_count(layer.trainable_weights),
        frozen=_count(layer.non_trainable_weights),
        multiply_adds=sum(call.multiply_adds for call in calls),
        saved_activations=sum(call.saved_activations for call in calls),
        looked_up_rows=sum(
            math.prod(call.input)
            for call in calls
            if isinstance(layer, layers.Embedding) and not call.shared
        ),
        dimensions=_dimensions(layer),
        parts=tuple(
            part.info.path
            for part in entries
            if path in part.ancestors and applied_layer(part.parent) is not part.layer
        ),
        output=entry.info.output,
        softmax=entry.info.softmax,
        compute_dtype=layer.compute_dtype,
        variable_dtype=layer.variable_dtype,
        float32_reason=dtypes.float32_reason if dtypes is not None else None,
        requested_16_bit=dtypes is not None and dtypes.requested_16_bit,
        products=dtypes.products if dtypes is not None else None,
    )


def _with_known_size(shape: Iterable[int | None]) -> Shape:
    return tuple(size or 1 for size in shape)


def _count(weights: list[Any]) -> int:
    return sum(math.prod(weight.shape) for weight in weights)


def _dimensions(layer: Any) -> tuple[Dimension, ...]:
    for name in ("units", "filters"):
        if isinstance(size := getattr(layer, name, None), int):
            return (Dimension(name, size),)
    if isinstance(layer, layers.MultiHeadAttention):
        return (Dimension("size of a head", layer.key_dim),)
    return ()


class _Call(NamedTuple):
    """One call of a layer; the shapes are those of the first input and output of one example."""

    input: Shape
    output: Shape
    shared: bool
    """Whether all examples share the output."""
    multiply_adds: int
    saved_activations: int


def _measure(layer: Any, kind: str, shapes: Layer | None, node: Any) -> _Call:
    """The work of a call; an axis of unknown size counts as 1."""
    inputs = [_with_known_size(tensor.shape[1:]) for tensor in _inputs(node)]
    output_shape = node.output_tensors[0].shape
    output = _with_known_size(output_shape[1:])
    work = _infer(layer, shapes, inputs)
    saved = work.saved_activations if work is not None else None
    return _Call(
        inputs[0],
        output,
        output_shape[0] is not None,
        work.multiply_adds if work is not None else 0,
        count_saved_activations(kind, output) if saved is None else saved,
    )


def _inputs(node: Any) -> list[Any]:
    """The tensors of a call; those of an attention in the order of its definition."""
    arguments = {**node.arguments.kwargs}
    order = [
        arguments[name] for name in ("query", "value", "key") if arguments.get(name) is not None
    ]
    return order if len(order) > 1 else list(node.input_tensors)


def _infer(layer: Any, shapes: Layer | None, inputs: list[Shape]) -> Inference | None:
    if shapes is None:
        return None
    if getattr(layer, "data_format", None) == "channels_first":
        inputs = [(*shape[1:], shape[0]) for shape in inputs]
    try:
        return shapes.infer(*inputs[: shapes.input_count[1]])
    except ShapeError:  # a shape that only Keras takes
        return None

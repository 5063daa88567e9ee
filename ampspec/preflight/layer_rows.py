"""The layer table of a network from its description: weights, arithmetic and activations.

The classes of `ampspec.layers` infer shapes and weights from the inputs of a layer.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from ampspec.layers.inference import Shape, count_parameters
from ampspec.networks.description import LayerDescription, NetworkDescription, PositionNumbers
from ampspec.preflight.layer_table import Dimension, LayerRow, LayerTable, count_saved_activations


def table_from_description(name: str, network: NetworkDescription) -> LayerTable:
    """The layers of a network in float32; `name` is that of the network in the spec.

    A layer that is called several times has one row, with the work of all calls.
    """
    shapes = {network_input.name: network_input.shape for network_input in network.inputs}
    same_for_all = set()
    rows: dict[str, LayerRow] = {}
    for layer in network.layers:
        inputs = [shapes[name] for name in layer.inputs]
        if isinstance(layer.layer, PositionNumbers):
            shapes[layer.name] = inputs[0]
            same_for_all.add(layer.name)
            continue
        row = _row(layer, inputs)
        if layer.inputs[0] in same_for_all:  # the same rows for every example
            row = replace(row, looked_up_rows=0)
        shapes[layer.name] = row.output_shape
        row = replace(row, output=layer.name in network.output_layers)
        rows[row.path] = row if layer.shares is None else _with_call(rows[row.path], row)
    return LayerTable(name, tuple(rows.values()))


def _row(description: LayerDescription, shapes: list[Shape]) -> LayerRow:
    """One call of a layer."""
    layer = description.layer
    inference = layer.infer(*shapes)
    path, kind = description.shares or description.name, layer.computing.layer
    weights, state = count_parameters(inference.weights), count_parameters(inference.state)
    saved = inference.saved_activations
    return LayerRow(
        path,
        kind,
        shapes[0],
        inference.output,
        trainable=weights if layer.trainable else 0,
        frozen=state if layer.trainable else weights + state,
        multiply_adds=inference.multiply_adds,
        saved_activations=count_saved_activations(layer.layer, inference.output)
        if saved is None
        else saved,
        looked_up_rows=math.prod(shapes[0]) if layer.layer == "Embedding" else 0,
        dimensions=_dimensions(description, inference.dimensions),
        parts=tuple(f"{path}/{part}" for part in inference.parts),
        softmax=kind == "Softmax" or getattr(layer.computing, "activation", "") == "softmax",
    )


def _with_call(row: LayerRow, call: LayerRow) -> LayerRow:
    """The row of a layer with the work of another call; it has the weights once."""
    return replace(
        row,
        multiply_adds=row.multiply_adds + call.multiply_adds,
        saved_activations=row.saved_activations + call.saved_activations,
        looked_up_rows=row.looked_up_rows + call.looked_up_rows,
        output=row.output or call.output,
    )


def _dimensions(description: LayerDescription, sizes: Mapping[str, int]) -> tuple[Dimension, ...]:
    """The sizes that a field of the spec decides."""
    return tuple(
        Dimension(name, size, description.spec_fields[name])
        for name, size in sizes.items()
        if name in description.spec_fields
    )

"""The layer table of a network from its description: weights, arithmetic and activations.

The counts are those of the definitions: a dense layer multiplies inputs × units, a convolution
kernel² × input channels × filters at each position of its output.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from ampcore.architectures.layers import POSITION_NUMBERS, LayerConfig, NetworkConfig
from ampcore.preflight.layer_table import (
    Dimension,
    LayerRow,
    LayerTable,
    count_saved_activations,
)
from ampcore.spec.layers.attention import ATTENTION_PARTS, count_attention_activations
from ampcore.spec.layers.inference import Shape, count_parameters
from ampcore.spec.layers.recurrent import count_recurrent_activations


def table_from_network(name: str, network: NetworkConfig) -> LayerTable:
    """The layers of a network in float32; `name` is that of the network in the spec.

    A layer that is called several times has one row, with the work of all calls.
    """
    shapes = {one.name: one.shape for one in network.inputs}
    same_for_all = set()
    rows: dict[str, LayerRow] = {}
    for layer in network.layers:
        inputs = [shapes[name] for name in layer.inputs]
        if layer.kind == POSITION_NUMBERS:
            shapes[layer.name] = inputs[0]
            same_for_all.add(layer.name)
            continue
        row = ROWS[layer.kind](layer, inputs[0]) if layer.spec is None else _own(layer, inputs)
        if layer.inputs[0] in same_for_all:  # the same rows for every example
            row = replace(row, looked_up_rows=0)
        shapes[layer.name] = row.output_shape
        row = replace(row, output=layer.name in network.output_layers)
        rows[row.path] = row if layer.shares is None else _with_call(rows[row.path], row)
    return LayerTable(name, tuple(rows.values()))


def _own(layer: LayerConfig, shapes: list[Shape]) -> LayerRow:
    """A layer that the spec describes itself."""
    assert layer.spec is not None, layer.name  # noqa: S101 - the caller has checked it
    made = layer.spec.infer(*shapes)
    path = layer.shares or layer.name
    weights, state = count_parameters(made.weights), count_parameters(made.state)
    saved = made.saved_activations
    return LayerRow(
        path,
        layer.kind,
        shapes[0],
        made.output,
        trainable=weights if layer.spec.trainable else 0,
        frozen=state if layer.spec.trainable else weights + state,
        multiply_adds=made.multiply_adds,
        saved_activations=count_saved_activations(layer.kind, made.output)
        if saved is None
        else saved,
        looked_up_rows=math.prod(shapes[0]) if layer.kind == "Embedding" else 0,
        dimensions=_dimensions(layer, made.dimensions),
        parts=tuple(f"{path}/{part}" for part in made.parts),
        softmax=layer.kind == "Softmax" or layer.arguments.get("activation") == "softmax",
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


def _row(layer: LayerConfig, input_shape: Shape, output_shape: Shape) -> LayerRow:
    """A layer without weights."""
    saved = count_saved_activations(layer.kind, output_shape)
    return LayerRow(layer.name, layer.kind, input_shape, output_shape, saved_activations=saved)


def _dimensions(layer: LayerConfig, sizes: Mapping[str, int]) -> tuple[Dimension, ...]:
    """The sizes that a field of the spec decides."""
    return tuple(
        Dimension(name, size, layer.spec_fields[name])
        for name, size in sizes.items()
        if name in layer.spec_fields
    )


def _same_shape(layer: LayerConfig, shape: Shape) -> LayerRow:
    return _row(layer, shape, shape)


def _dense(layer: LayerConfig, shape: Shape) -> LayerRow:
    *positions, width = shape
    units = layer.arguments["units"]
    return replace(
        _row(layer, shape, (*positions, units)),
        trainable=(width + 1) * units,
        multiply_adds=math.prod(positions) * width * units,
        dimensions=_dimensions(layer, {"inputs": width, "units": units}),
    )


def _conv2d(layer: LayerConfig, shape: Shape) -> LayerRow:
    """A square convolution over (height, width, channels)."""
    *size, channels = shape
    filters, kernel = layer.arguments["filters"], layer.arguments["kernel_size"]
    strides = layer.arguments.get("strides", 1)
    trim = 0 if layer.arguments.get("padding") == "same" else kernel - 1
    positions = tuple(-(-(length - trim) // strides) for length in size)
    weights = kernel * kernel * channels * filters
    return replace(
        _row(layer, shape, (*positions, filters)),
        trainable=weights + filters * layer.arguments.get("use_bias", True),
        multiply_adds=math.prod(positions) * weights,
        dimensions=_dimensions(layer, {"filters": filters}),
    )


def _max_pooling2d(layer: LayerConfig, shape: Shape) -> LayerRow:
    *size, channels = shape
    pool = layer.arguments["pool_size"]
    return _row(layer, shape, (*(length // pool for length in size), channels))


def _up_sampling2d(layer: LayerConfig, shape: Shape) -> LayerRow:
    *size, channels = shape
    return _row(layer, shape, (*(length * layer.arguments["size"] for length in size), channels))


def _global_average_pooling2d(layer: LayerConfig, shape: Shape) -> LayerRow:
    return _row(layer, shape, shape[-1:])


def _flatten(layer: LayerConfig, shape: Shape) -> LayerRow:
    return _row(layer, shape, (math.prod(shape),))


def _reshape(layer: LayerConfig, shape: Shape) -> LayerRow:
    return _row(layer, shape, layer.arguments["target_shape"])


def _resizing(layer: LayerConfig, shape: Shape) -> LayerRow:
    size = (layer.arguments["height"], layer.arguments["width"])
    return _row(layer, shape, (*size, shape[-1]))


def _batch_normalization(layer: LayerConfig, shape: Shape) -> LayerRow:
    """Scale and shift are trained; the moving mean and variance are not."""
    return replace(_row(layer, shape, shape), trainable=2 * shape[-1], frozen=2 * shape[-1])


def _layer_normalization(layer: LayerConfig, shape: Shape) -> LayerRow:
    return replace(_row(layer, shape, shape), trainable=2 * shape[-1])


def _embedding(layer: LayerConfig, shape: Shape) -> LayerRow:
    vocabulary, dim = layer.arguments["input_dim"], layer.arguments["output_dim"]
    return replace(
        _row(layer, shape, (*shape, dim)),
        trainable=vocabulary * dim,
        looked_up_rows=math.prod(shape),
    )


def _lstm(layer: LayerConfig, shape: Shape) -> LayerRow:
    """Four gates at each of T steps: (T, inputs) to (T, units)."""
    steps, width = shape
    units = layer.arguments["units"]
    gates = 4 * units
    return replace(
        _row(layer, shape, (steps, units)),
        trainable=gates * (width + units + 1),
        multiply_adds=steps * gates * (width + units),
        saved_activations=count_recurrent_activations("LSTM", steps, units),
        dimensions=_dimensions(layer, {"inputs": width, "units": units}),
        parts=(f"{layer.name}/lstm_cell",),
    )


def _attention(layer: LayerConfig, shape: Shape) -> LayerRow:
    """Self-attention over (T, dim), with biases."""
    steps, dim = shape
    heads, key_size = layer.arguments["num_heads"], layer.arguments["key_dim"]
    inner = heads * key_size
    return replace(
        _row(layer, shape, shape),
        trainable=3 * (dim + 1) * inner + (inner + 1) * dim,
        multiply_adds=4 * steps * dim * inner + 2 * steps * steps * inner,
        saved_activations=count_attention_activations(steps, dim, heads, inner),
        dimensions=_dimensions(layer, {"size of a head": key_size, "sequence": steps}),
        parts=tuple(f"{layer.name}/{part}" for part in ATTENTION_PARTS),
    )


ROWS: Final[dict[str, Callable[[LayerConfig, Shape], LayerRow]]] = {
    "Add": _same_shape,
    "BatchNormalization": _batch_normalization,
    "Conv2D": _conv2d,
    "Dense": _dense,
    "Dropout": _same_shape,
    "Embedding": _embedding,
    "Flatten": _flatten,
    "GlobalAveragePooling2D": _global_average_pooling2d,
    "LSTM": _lstm,
    "LayerNormalization": _layer_normalization,
    "MaxPooling2D": _max_pooling2d,
    "MultiHeadAttention": _attention,
    "ReLU": _same_shape,
    "Reshape": _reshape,
    "Resizing": _resizing,
    "UpSampling2D": _up_sampling2d,
}
"""By Keras class, a function from (a layer, the shape of its first input) to its row."""

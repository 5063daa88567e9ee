"""The layer tables of real Keras models, of any kind, for the preflight."""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

from keras import layers

from ampcore.architectures.layers import Shape
from ampcore.models.task import Network, Task
from ampcore.precision import LayerPolicies
from ampcore.precision.layer_paths import LayerEntry, is_network, walk_layers
from ampcore.preflight.layer_table import (
    Dimension,
    LayerRow,
    LayerTable,
    count_attention_activations,
    count_lstm_activations,
    count_saved_activations,
)

CountMultiplyAdds = Callable[[Any, Shape, Shape], int]
"""(built layer, input shape, output shape) to multiply-adds per example."""


def tables_from_model(task: Task, policies: LayerPolicies) -> tuple[LayerTable, ...] | None:
    """The layer tables of a task's networks, with their actual dtypes.

    None if a network is a subclassed model, whose layers do not know their inputs.
    """
    if not all(is_network(network.model) for network in task.networks):
        return None
    return tuple(_table(network, policies) for network in task.networks)


def _table(network: Network, policies: LayerPolicies) -> LayerTable:
    found = list(walk_layers(network.model))
    # A layer inside another one is counted with it.
    outer = [entry for entry in found if entry.parent is None or is_network(entry.parent)]
    rows = (_row(entry, found, policies) for entry in outer)
    return LayerTable(network.name, tuple(rows))


def _row(entry: LayerEntry, found: list[LayerEntry], policies: LayerPolicies) -> LayerRow:
    layer, path = entry.layer, entry.info.path
    inputs, outputs, shared = _shapes(layer)
    dtypes = policies.layers.get(path)
    return LayerRow(
        path,
        entry.info.kind,
        inputs,
        outputs,
        trainable=_count(layer.trainable_weights),
        frozen=_count(layer.non_trainable_weights),
        multiply_adds=_multiply_adds(layer, inputs, outputs),
        saved_activations=_saved_activations(layer, entry.info.kind, inputs, outputs),
        looked_up_rows=0
        if shared or not isinstance(layer, layers.Embedding)
        else math.prod(inputs),
        dimensions=_dimensions(layer),
        parts=tuple(part.info.path for part in found if path in part.ancestors),
        output=entry.info.output,
        softmax=entry.info.softmax,
        compute_dtype=layer.compute_dtype,
        variable_dtype=layer.variable_dtype,
        float32_reason=dtypes.float32_reason if dtypes is not None else None,
        requested_16_bit=dtypes is not None and dtypes.requested_16_bit,
    )


def _shapes(layer: Any) -> tuple[Shape, Shape, bool]:
    """The first input and output of one example, and whether all examples share them.

    An axis of unknown size counts as 1.
    """
    node = layer._inbound_nodes[0]
    first, made = node.input_tensors[0].shape, node.output_tensors[0].shape
    return _known(first[1:]), _known(made[1:]), made[0] is not None


def _known(shape: Iterable[int | None]) -> Shape:
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


def _saved_activations(layer: Any, kind: str, inputs: Shape, outputs: Shape) -> int:
    if isinstance(layer, layers.LSTM):
        return count_lstm_activations(inputs[0], int(layer.units))
    if isinstance(layer, layers.MultiHeadAttention) and len(inputs) == 2:
        return count_attention_activations(
            *inputs, layer.num_heads, layer.num_heads * layer.key_dim
        )
    return count_saved_activations(kind, outputs)


def _multiply_adds(layer: Any, inputs: Shape, outputs: Shape) -> int:
    for kind, arithmetic in MULTIPLY_ADDS_BY_LAYER:
        if isinstance(layer, kind):
            return arithmetic(layer, inputs, outputs)
    return 0


def _dense_multiply_adds(layer: Any, inputs: Shape, outputs: Shape) -> int:
    return _count([layer.kernel]) * math.prod(outputs[:-1])


def _convolution_multiply_adds(layer: Any, inputs: Shape, outputs: Shape) -> int:
    return _count([layer.kernel]) * math.prod(_positions(layer, outputs))


def _transposed_multiply_adds(layer: Any, inputs: Shape, outputs: Shape) -> int:
    return _count([layer.kernel]) * math.prod(_positions(layer, inputs))


def _separable_multiply_adds(layer: Any, inputs: Shape, outputs: Shape) -> int:
    kernels = (layer.depthwise_kernel, layer.pointwise_kernel)
    return _count(list(kernels)) * math.prod(_positions(layer, outputs))


def _positions(layer: Any, shape: Shape) -> Shape:
    return shape[:-1] if layer.data_format == "channels_last" else shape[1:]


def _einsum_multiply_adds(layer: Any, inputs: Shape, outputs: Shape) -> int:
    """The product of the sizes of all indices, without the batch."""
    operands = layer.equation.replace("...", "").partition("->")[0].split(",")
    sizes = dict(zip(operands[0][1:], inputs, strict=False))
    sizes |= dict(zip(operands[1], layer.kernel.shape, strict=True))
    return math.prod(sizes.values())


def _attention_multiply_adds(layer: Any, inputs: Shape, outputs: Shape) -> int:
    """Four projections at each position; scores and weighted sums between all positions."""
    steps = math.prod(inputs[:-1])
    kernels = _count([weight for weight in layer.trainable_weights if weight.name == "kernel"])
    inner: int = layer.num_heads * (layer.key_dim + layer.value_dim)
    return steps * kernels + steps * steps * inner


def _recurrent_multiply_adds(layer: Any, inputs: Shape, outputs: Shape) -> int:
    kernels = (layer.cell.kernel, layer.cell.recurrent_kernel)
    return inputs[0] * _count(list(kernels))


MULTIPLY_ADDS_BY_LAYER: Final[tuple[tuple[type | tuple[type, ...], CountMultiplyAdds], ...]] = (
    (layers.EinsumDense, _einsum_multiply_adds),
    (layers.Dense, _dense_multiply_adds),
    ((layers.SeparableConv1D, layers.SeparableConv2D), _separable_multiply_adds),
    (
        (layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose),
        _transposed_multiply_adds,
    ),
    (
        (
            layers.Conv1D,
            layers.Conv2D,
            layers.Conv3D,
            layers.DepthwiseConv1D,
            layers.DepthwiseConv2D,
        ),
        _convolution_multiply_adds,
    ),
    (layers.MultiHeadAttention, _attention_multiply_adds),
    ((layers.LSTM, layers.GRU, layers.SimpleRNN), _recurrent_multiply_adds),
)
"""The layers that multiply matrices; the arithmetic of others is negligible."""

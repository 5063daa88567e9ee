"""The layers of real Keras models, as the preflight looks at them: for any kind of model."""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

from keras import layers

from ampcore.models.task import Network, Task
from ampcore.precision import LayerPolicies
from ampcore.precision.places import Place, is_network, places
from ampcore.preflight.layer import Dimension, Layer, Shape, Table, kept_numbers
from ampcore.preflight.sketch import kept_in_attention

Arithmetic = Callable[[Any, Shape, Shape], int]
"""(built layer, input shape, output shape) to multiply-adds per example."""


def inspected(task: Task, policies: LayerPolicies) -> tuple[Table, ...]:
    """Every layer of a task's networks, with the dtypes that it has in fact."""
    return tuple(_table(network, policies) for network in task.networks)


def _table(network: Network, policies: LayerPolicies) -> Table:
    found = list(places(network.model))
    # A layer inside of another one is counted with it.
    outer = [place for place in found if place.parent is None or is_network(place.parent)]
    rows = (_row(place, found, policies) for place in outer)
    return Table(network.name, tuple(rows))


def _row(place: Place, found: list[Place], policies: LayerPolicies) -> Layer:
    layer, path = place.layer, place.facts.path
    inputs, outputs, shared = _shapes(layer)
    dtypes = policies.layers.get(path)
    return Layer(
        path,
        place.facts.kind,
        inputs,
        outputs,
        trainable=_count(layer.trainable_weights),
        frozen=_count(layer.non_trainable_weights),
        multiply_adds=_multiply_adds(layer, inputs, outputs),
        kept=_kept(layer, place.facts.kind, inputs, outputs),
        rows=0 if shared or not isinstance(layer, layers.Embedding) else math.prod(inputs),
        dimensions=_dimensions(layer),
        parts=tuple(part.facts.path for part in found if path in part.ancestors),
        output=place.facts.output,
        softmax=place.facts.softmax,
        compute=layer.compute_dtype,
        variable=layer.variable_dtype,
        kept_float32=dtypes.kept if dtypes is not None else None,
        asked=dtypes is not None and dtypes.asked,
    )


def _shapes(layer: Any) -> tuple[Shape, Shape, bool]:
    """Of one example: the first input and output; and whether all examples share them.

    An axis of any size counts as 1.
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


def _kept(layer: Any, kind: str, inputs: Shape, outputs: Shape) -> int:
    if isinstance(layer, layers.LSTM):
        return inputs[0] * 6 * int(layer.units)
    if isinstance(layer, layers.MultiHeadAttention) and len(inputs) == 2:
        return kept_in_attention(*inputs, layer.num_heads, layer.num_heads * layer.key_dim)
    return kept_numbers(kind, outputs)


def _multiply_adds(layer: Any, inputs: Shape, outputs: Shape) -> int:
    for kind, arithmetic in ARITHMETIC:
        if isinstance(layer, kind):
            return arithmetic(layer, inputs, outputs)
    return 0


def _dense(layer: Any, inputs: Shape, outputs: Shape) -> int:
    return _count([layer.kernel]) * math.prod(outputs[:-1])


def _convolution(layer: Any, inputs: Shape, outputs: Shape) -> int:
    return _count([layer.kernel]) * math.prod(_places(layer, outputs))


def _transposed(layer: Any, inputs: Shape, outputs: Shape) -> int:
    return _count([layer.kernel]) * math.prod(_places(layer, inputs))


def _separable(layer: Any, inputs: Shape, outputs: Shape) -> int:
    kernels = (layer.depthwise_kernel, layer.pointwise_kernel)
    return _count(list(kernels)) * math.prod(_places(layer, outputs))


def _places(layer: Any, shape: Shape) -> Shape:
    return shape[:-1] if layer.data_format == "channels_last" else shape[1:]


def _einsum(layer: Any, inputs: Shape, outputs: Shape) -> int:
    """The product of every index's size; the batch's is one."""
    operands = layer.equation.replace("...", "").partition("->")[0].split(",")
    sizes = dict(zip(operands[0][1:], inputs, strict=False))
    sizes |= dict(zip(operands[1], layer.kernel.shape, strict=True))
    return math.prod(sizes.values())


def _attention(layer: Any, inputs: Shape, outputs: Shape) -> int:
    """Four projections at each place; then scores, and sums of values, between all places."""
    steps = math.prod(inputs[:-1])
    kernels = _count([weight for weight in layer.trainable_weights if weight.name == "kernel"])
    inner: int = layer.num_heads * (layer.key_dim + layer.value_dim)
    return steps * kernels + steps * steps * inner


def _recurrent(layer: Any, inputs: Shape, outputs: Shape) -> int:
    kernels = (layer.cell.kernel, layer.cell.recurrent_kernel)
    return inputs[0] * _count(list(kernels))


ARITHMETIC: Final[tuple[tuple[type | tuple[type, ...], Arithmetic], ...]] = (
    (layers.EinsumDense, _einsum),
    (layers.Dense, _dense),
    ((layers.SeparableConv1D, layers.SeparableConv2D), _separable),
    ((layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose), _transposed),
    (
        (
            layers.Conv1D,
            layers.Conv2D,
            layers.Conv3D,
            layers.DepthwiseConv1D,
            layers.DepthwiseConv2D,
        ),
        _convolution,
    ),
    (layers.MultiHeadAttention, _attention),
    ((layers.LSTM, layers.GRU, layers.SimpleRNN), _recurrent),
)
"""The kinds of layers that multiply matrices; all else is little beside them."""

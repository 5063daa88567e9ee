"""The network of a spec that lists its layers, `model: {kind: layers}`."""

from collections.abc import Mapping
from typing import Final

from ampspec.layers.graph import Node
from ampspec.layers.kinds.attention import ATTENTION_LAYERS
from ampspec.models.model import Layers
from ampspec.networks.description import (
    DataShape,
    InputDescription,
    LayerDescription,
    NetworkDescription,
)

FIELDS_OF_DIMENSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "units": ("units",),
    "filters": ("filters",),
    "size of a head": ("key_dim", "head_dim"),
}
"""By dimension of a matrix product, the fields that may set it."""


def custom_layers(spec: Layers, data: DataShape) -> dict[str, NetworkDescription]:
    """The layers in the order of their inputs; the spec has no problems."""
    graph = spec.connect()
    sizes = named_sizes(data)
    inputs = tuple(
        InputDescription(name, spec.inputs[name].shape, spec.inputs[name].dtype)
        if name in spec.inputs
        else InputDescription(name, data.example, data.dtype)
        for name in graph.inputs
    )
    layers = tuple(_description(node, sizes) for node in graph.nodes)
    return {
        "model": NetworkDescription("layers", inputs, layers, graph.outputs, graph.output_layers)
    }


def named_sizes(data: DataShape) -> dict[str, int]:
    """The sizes of the data that layers may refer to by name."""
    sizes = {"classes": data.classes}
    return sizes if data.vocabulary is None else sizes | {"vocabulary": data.vocabulary}


def _description(node: Node, sizes: Mapping[str, int]) -> LayerDescription:
    layer = node.layer.with_sizes(sizes)
    inputs = node.inputs
    if layer.layer in ATTENTION_LAYERS and len(inputs) == 1:
        inputs *= 2  # self-attention: Keras requires the query and the value
    pointers = {
        dimension: f"{node.pointer}/{field}"
        for dimension, fields in FIELDS_OF_DIMENSIONS.items()
        for field in fields
        if hasattr(layer, field)
    }
    return LayerDescription(
        layer, node.name, inputs, layer.keras_arguments, pointers, shares=node.reuses
    )

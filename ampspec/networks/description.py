"""The description of a network: its layers, their arguments and how they are connected.

Needs no TensorFlow. `ampcore.models` builds Keras models from it; `ampspec.preflight` counts
weights, memory and arithmetic from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ampspec.layers.base import Elementwise, Layer
from ampspec.layers.inference import Shape

InputDtype = Literal["float32", "int32"]


class PositionNumbers(Elementwise):
    """The positions 0 … T - 1 of T tokens, (1, T): the only kind of layer without a Keras class."""

    layer: str = "PositionNumbers"


@dataclass(frozen=True)
class DataShape:
    """One example of the data, without the batch axis."""

    example: Shape
    classes: int
    pointer: str = "/data"
    """The JSON pointer (RFC 6901) of the spec field that decides the shape."""
    dtype: InputDtype = "float32"
    vocabulary: int | None = None
    """int32 examples hold keys from 0 to `vocabulary` - 1, if that is known."""


@dataclass(frozen=True)
class LayerDescription:
    """One layer of the grammar in its place in a network."""

    layer: Layer
    name: str
    inputs: tuple[str, ...]
    """The names of the layers, or of the network's input, whose outputs are its inputs."""
    keras_arguments: Mapping[str, Any]
    """The arguments of Keras's constructor, without the name."""
    spec_fields: Mapping[str, str] = field(default_factory=dict)
    """By dimension of its matrix product, the spec field that decides the size."""
    shares: str | None = None
    """The name of the layer whose weights it shares, for another call of that layer."""


@dataclass(frozen=True)
class InputDescription:
    """One input of a network; the shape is that of one example."""

    name: str
    shape: Shape
    dtype: InputDtype = "float32"


@dataclass(frozen=True)
class NetworkDescription:
    """One network: its inputs, its layers in the order of building, and its outputs."""

    name: str
    """The name of the Keras model."""
    inputs: tuple[InputDescription, ...]
    layers: tuple[LayerDescription, ...]
    outputs: tuple[str, ...]
    """The names of the layers that are the outputs of the network."""
    output_layers: frozenset[str] = frozenset()
    """The layers that compute the outputs, as opposed to reshaping them."""


class NetworkBuilder:
    """Collects the layers of a network; by default each takes the output of the previous one."""

    def __init__(
        self,
        name: str,
        input_name: str,
        input_shape: Shape,
        input_dtype: InputDtype = "float32",
    ) -> None:
        self._name = name
        self._input = InputDescription(input_name, input_shape, input_dtype)
        self._layers: list[LayerDescription] = []
        self.output = input_name
        """The name of the last layer, whose output is the next layer's default input."""

    def add(
        self,
        kind: str,
        name: str,
        *inputs: str,
        spec_fields: Mapping[str, str | None] | None = None,
        **arguments: Any,
    ) -> str:
        """Add a layer and return its name.

        Args:
            kind: The name of its class in the grammar and in Keras.
            name: Its path, which a spec's overrides match.
            *inputs: The names of the layers whose outputs it takes, instead of the last layer.
            spec_fields: By dimension, the field of the spec that decides it; None leaves it out.
            **arguments: The fields of the layer that differ from their defaults.
        """
        from ampspec.layers.catalog import LAYERS  # many classes, only when needed

        # The kind of model has already checked the bounds.
        layer = LAYERS[kind].model_construct(**arguments)
        return self.add_layer(layer, name, *inputs, spec_fields=spec_fields)

    def add_layer(
        self,
        layer: Layer,
        name: str,
        *inputs: str,
        spec_fields: Mapping[str, str | None] | None = None,
    ) -> str:
        """Add a layer that is not made from the name of its kind; see `add`."""
        keras_arguments = {
            field: value
            for field, value in layer.keras_arguments.items()
            if field in layer.model_fields_set
        }
        fields = {size: pointer for size, pointer in (spec_fields or {}).items() if pointer}
        self._layers.append(
            LayerDescription(layer, name, inputs or (self.output,), keras_arguments, fields)
        )
        self.output = name
        return name

    def network(self) -> NetworkDescription:
        """The network with the layers that were added."""
        return NetworkDescription(
            self._name,
            (self._input,),
            tuple(self._layers),
            (self.output,),
            frozenset({self.output}),
        )

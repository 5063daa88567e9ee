"""The base classes of all layers: name, inputs and shape inference."""

import inspect
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from ampspec.documents.base import SpecModel
from ampspec.layers.fields import REQUIRED, AxisField, LayerName
from ampspec.layers.inference import Inference, Shape, require_rank
from ampspec.layers.weight_options import (
    GLOROT_UNIFORM,
    ZEROS,
    ConstraintField,
    InitializerField,
    RegularizerField,
)

MAX_INPUTS: Final = 64
"""Maximum number of inputs of a layer."""

InputNames = Annotated[
    tuple[LayerName, ...], Field(strict=False, min_length=1, max_length=MAX_INPUTS)
]


def default_name(kind: str) -> str:
    """The name that Keras gives the first layer of a kind: its class in snake case."""
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", kind)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()


class Entry(SpecModel):
    """One entry of `layers`; in documents, fields with their default are left out."""

    model_config = ConfigDict(defer_build=True)

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> Any:
        fields = type(self).model_fields
        return {
            name: value
            for name, value in handler(self).items()
            if name == "layer" or getattr(self, name) != fields[name].default
        }


SPATIAL_AXES: Final = {
    1: "steps, channels",
    2: "height, width, channels",
    3: "depth, height, width, channels",
}
"""By the rank of a layer, the axes of its input."""


AxisFields = Mapping[str, AxisField]


class Layer(Entry):
    """The fields of every layer; each class has the name of one in `keras.layers`.

    `class Conv2D(_Convolution, rank=2)` is a kind for inputs with two spatial axes: each of its
    `axis_fields` has two entries.
    """

    rank: ClassVar[int] = 0
    """The number of spatial axes of the input, as Keras counts it; 0: any."""
    axis_fields: ClassVar[AxisFields] = {}
    """The fields with an entry for each spatial axis."""
    input_count: ClassVar[tuple[int, int]] = (1, 1)
    """The minimum and maximum number of inputs."""
    call_fields: ClassVar[frozenset[str]] = frozenset()
    """The fields that are arguments of the call, not of the constructor."""
    input_list: ClassVar[bool] = False
    """Whether the call takes its inputs as one list."""

    layer: str
    name: LayerName | None = None
    """The layer's path, which `precision.overrides` match; by default the class in snake case,
    numbered."""
    inputs: InputNames | None = None
    """The names of the layers or inputs that it takes; by default the previous layer."""
    trainable: bool = True
    """Whether training changes its weights."""

    def __init_subclass__(cls, *, rank: int = 0, **options: Any) -> None:
        """Define the fields that follow from the name of a kind and from its rank."""
        super().__init_subclass__(**options)
        if cls.__name__.startswith("_"):
            return
        fields: dict[str, tuple[Any, Any]] = {"layer": (Literal[cls.__name__], cls.__name__)}
        if rank:
            cls.rank = rank
            fields |= {name: field.of_rank(rank) for name, field in cls.axis_fields.items()}
        annotations = {name: annotation for name, (annotation, _) in fields.items()}
        cls.__annotations__ = inspect.get_annotations(cls) | annotations
        for name, (_, default) in fields.items():
            if default is not REQUIRED:
                setattr(cls, name, default)

    def spatial_shape(self, shape: Shape) -> Shape:
        """The input without its channels. Raises ShapeError unless it has the axes of the rank."""
        require_rank(shape, SPATIAL_AXES[self.rank])
        return shape[:-1]

    def infer(self, *shapes: Shape) -> Inference:
        """Infer the output, the weights and the arithmetic for inputs of these shapes.

        Raises ShapeError for inputs that the layer cannot take.
        """
        raise NotImplementedError

    def with_sizes(self, sizes: Mapping[str, int]) -> Self:
        """The layer with words such as `classes` replaced by sizes."""
        words = {
            name: sizes[value]
            for name in ("units", "filters", "input_dim")
            if isinstance(value := getattr(self, name, None), str) and value in sizes
        }
        return self.model_copy(update=words) if words else self

    @property
    def computing(self) -> "Layer":
        """The layer whose kind decides the dtypes: the inner layer of a wrapper."""
        return self

    @property
    def unknown_sizes(self) -> tuple[str, ...]:
        """The fields that hold a word instead of a size."""
        return tuple(
            name
            for name in ("units", "filters", "input_dim")
            if isinstance(getattr(self, name, None), str)
        )

    @property
    def keras_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor in Keras, without the name.

        Initializers, regularizers and constraints are WeightOptions, an inner layer is a Layer.
        """
        left_out = {"layer", "name", "inputs", *self.call_fields}
        return {
            name: value
            for name in type(self).model_fields
            if name not in left_out and (value := getattr(self, name)) is not None
        }

    @property
    def call_arguments(self) -> dict[str, Any]:
        """The keyword arguments of the call."""
        return {name: getattr(self, name) for name in sorted(self.call_fields)}


def layer_kinds(module: ModuleType) -> Iterator[type[Layer]]:
    """The kinds of layer that a module defines, in its order."""
    for value in vars(module).values():
        is_kind = isinstance(value, type) and issubclass(value, Layer)
        if is_kind and value.__module__ == module.__name__ and value.__name__[0] != "_":
            yield value


class Elementwise(Layer):
    """A layer without weights whose output has the shape of its input."""

    def infer(self, *shapes: Shape) -> Inference:
        """The same shape."""
        return Inference(shapes[0])


class KernelLayer(Layer):
    """The fields of layers with a kernel and a bias."""

    use_bias: bool = True
    kernel_initializer: InitializerField = GLOROT_UNIFORM
    bias_initializer: InitializerField = ZEROS
    kernel_regularizer: RegularizerField = None
    bias_regularizer: RegularizerField = None
    kernel_constraint: ConstraintField = None
    bias_constraint: ConstraintField = None

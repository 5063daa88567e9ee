"""A layer that applies another layer to every step of a sequence."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from ampspec.documents.text import join_names
from ampspec.layers.base import Layer, layer_kinds
from ampspec.layers.inference import Inference, Shape, ShapeError
from ampspec.layers.kinds import (
    activations,
    convolution,
    core,
    dropout,
    normalization,
    pooling,
    reshaping,
)

MAX_STEPS: Final = 256
"""Keras creates the operations of the inner layer once for each step."""

_KINDS: Final[tuple[type[Layer], ...]] = (
    *(core.Dense, core.Identity),
    *layer_kinds(activations),
    *layer_kinds(convolution),
    *layer_kinds(pooling),
    *layer_kinds(normalization),
    *(dropout.Dropout, dropout.SpatialDropout1D, dropout.SpatialDropout2D),
    dropout.SpatialDropout3D,
    *layer_kinds(reshaping),
)
INNER: Final[dict[str, type[Layer]]] = {kind.__name__: kind for kind in _KINDS}
"""The supported inner layers: one input, and an output that depends only on it."""


def _parse_inner(value: object) -> Layer:
    """Parse the inner layer, so that errors point to its fields."""
    if isinstance(value, Layer) and value.layer in INNER:
        return value
    if isinstance(value, Mapping) and isinstance(kind := value.get("layer"), str) and kind in INNER:
        return INNER[kind].model_validate(value)
    raise ValueError(f"one of the layers {join_names(INNER, len(INNER))}")


class TimeDistributed(Layer):
    """A layer that is applied to every step of a sequence, with the same weights.

    The sequence has at most 256 steps: Keras creates the operations of the layer once for each.
    """

    of: Annotated[
        Any,
        PlainValidator(_parse_inner),
        PlainSerializer(lambda inner: inner.model_dump(mode="json")),
        WithJsonSchema({"type": "object", "description": "A layer, without name and inputs."}),
    ]
    """The layer, without a name and inputs: Dense, or one of activations, convolutions, pooling,
    normalization, dropout and reshaping."""

    @property
    def computing(self) -> Layer:
        """The layer inside."""
        inner: Layer = self.of
        return inner

    def infer(self, *shapes: Shape) -> Inference:
        """[steps, …] to [steps, output of the layer inside…]."""
        [shape] = shapes
        for field in ("name", "inputs"):
            if getattr(self.of, field) is not None:
                raise ShapeError(
                    f"of/{field}", expected="no value: the layer inside has none", received="one"
                )
        if len(shape) < 2 or shape[0] > MAX_STEPS:
            raise ShapeError(
                "inputs",
                expected=f"an input [steps, …] of at most {MAX_STEPS} steps",
                received=str(list(shape)),
            )
        steps, *step = shape
        try:
            inner: Inference = self.of.infer(tuple(step))
        except ShapeError as error:
            field = error.field if error.field == "inputs" else f"of/{error.field}"
            raise ShapeError(field, expected=error.expected, received=error.received) from None
        # Even a layer that only reshapes is copied into the output of all steps.
        saved = (
            math.prod(inner.output) if inner.saved_activations is None else inner.saved_activations
        )
        return Inference(
            (steps, *inner.output),
            weights=inner.weights,
            state=inner.state,
            multiply_adds=steps * inner.multiply_adds,
            saved_activations=steps * saved,
            dimensions=inner.dimensions,
        )

    def with_sizes(self, sizes: Mapping[str, int]) -> Self:
        """The layer inside with words such as `classes` replaced by sizes."""
        return self.model_copy(update={"of": self.of.with_sizes(sizes)})

    @property
    def keras_arguments(self) -> dict[str, Any]:
        """Keras calls the layer inside `layer`."""
        arguments = super().keras_arguments
        return {"layer": arguments.pop("of"), **arguments}

"""The layer table of a network: shapes, weights, arithmetic and dtypes of each layer."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from ampspec.layers.inference import Shape
from ampspec.precision.layer_dtypes import Float32Reason, LayerInfo, layer_dtypes
from ampspec.precision.precision import DTYPES_OF_16_BITS, Dtype, Precision
from ampspec.precision.product_dtypes import ProductDtypes

RESHAPING_LAYERS: Final = frozenset({"Flatten", "Reshape"})
"""The layers whose output shares the memory of their input."""


@dataclass(frozen=True)
class Dimension:
    """A size in a matrix product that the spec decides, and the pointer to its field."""

    name: str
    size: int
    pointer: str = "/model"


@dataclass(frozen=True)
class LayerRow:
    """One layer; shapes and counts are of one example. `path` is what overrides match."""

    path: str
    kind: str
    """The name of its Keras class."""
    input_shape: Shape
    output_shape: Shape
    trainable: int = 0
    frozen: int = 0
    """Weights that the optimizer does not touch, such as BatchNorm's statistics."""
    multiply_adds: int = 0
    """Multiply-adds of its matrix products in a forward pass; other arithmetic is negligible."""
    saved_activations: int = 0
    """The estimated number of values saved for the backward pass."""
    looked_up_rows: int = 0
    """The rows of an embedding table that one example looks up; the gradient has only these."""
    dimensions: tuple[Dimension, ...] = ()
    parts: tuple[str, ...] = ()
    """The paths of the layers inside it, which overrides match too."""
    output: bool = False
    softmax: bool = False
    compute_dtype: Dtype = "float32"
    variable_dtype: Dtype = "float32"
    float32_reason: Float32Reason | None = None
    requested_16_bit: bool = False
    """An override asks for 16 bits and is not followed."""
    products: ProductDtypes | None = None
    """The dtypes of its matrix products; None: all are computed in `compute_dtype`."""

    @property
    def parameters(self) -> int:
        """All weights."""
        return self.trainable + self.frozen

    @property
    def half(self) -> bool:
        """Whether it computes in 16 bits."""
        return self.compute_dtype in DTYPES_OF_16_BITS

    @property
    def float8_share(self) -> float:
        """The share of its matrix products in float8, from 0 to 1."""
        if self.products is None:
            return 0.0
        return self.products.all.count("float8") / len(self.products.all)

    @property
    def product_dtype(self) -> str:
        """The dtype of its matrix products; dtypes that differ by role are joined with slashes."""
        dtypes = self.products.all if self.products is not None else (self.compute_dtype,)
        return dtypes[0] if len(set(dtypes)) == 1 else "/".join(dtypes)

    def with_policy(self, precision: Precision, policy: str) -> "LayerRow":
        """The same layer with the dtypes that a resolved policy gives it."""
        info = LayerInfo(self.path, self.kind, self.output, self.softmax)
        dtypes = layer_dtypes(precision, policy, info)
        return replace(
            self,
            compute_dtype=dtypes.compute_dtype,
            variable_dtype=dtypes.variable_dtype,
            float32_reason=dtypes.float32_reason,
            requested_16_bit=dtypes.requested_16_bit,
            products=dtypes.products,
        )


class PassCounts(NamedTuple):
    """The work of a training step on a batch, in passes through a network."""

    forwards: int = 1
    """The number of batches that pass through it."""
    passes: int = 3
    """The work as a multiple of a forward pass: one forward, and two for the gradients by the
    inputs and by the weights."""


PASS_COUNTS: Final[dict[str, PassCounts]] = {
    # Real and generated images go forward and back to the weights (2 + 4); the loss of the
    # generator goes back through the generated ones once more, to the inputs only (1).
    "discriminator": PassCounts(forwards=2, passes=7),
}
"""By network, where the counts differ from the default."""


@dataclass(frozen=True)
class LayerTable:
    """The layers of one network, in order."""

    network: str
    """"model", or the name of one of several networks."""
    layers: tuple[LayerRow, ...]

    @property
    def pass_counts(self) -> PassCounts:
        """The work of a training step on a batch."""
        return PASS_COUNTS.get(self.network, PassCounts())

    @property
    def parameters(self) -> int:
        """All weights."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def trainable(self) -> int:
        """The weights that the optimizer updates."""
        return sum(layer.trainable for layer in self.layers)

    @property
    def multiply_adds(self) -> int:
        """The multiply-adds of a forward pass over one example."""
        return sum(layer.multiply_adds for layer in self.layers)

    def with_policy(self, precision: Precision, policy: str) -> "LayerTable":
        """The same network with the dtypes that a resolved policy gives each layer."""
        layers = tuple(layer.with_policy(precision, policy) for layer in self.layers)
        return replace(self, layers=layers)


def count_saved_activations(kind: str, output_shape: Sequence[int]) -> int:
    """The values most layers save for the backward pass: their output, unless it shares memory."""
    return 0 if kind in RESHAPING_LAYERS else math.prod(output_shape)


def all_layers(tables: Iterable[LayerTable]) -> list[LayerRow]:
    """Every layer of every network."""
    return [layer for table in tables for layer in table.layers]

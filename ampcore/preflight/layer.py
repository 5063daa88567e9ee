"""A layer as the preflight sees it: shapes, weights and arithmetic per example, and dtypes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from ampcore.spec.layer_dtypes import Kept, LayerFacts, layer_dtypes
from ampcore.spec.precision import Dtype, Precision

Shape = tuple[int, ...]

VIEWS: Final = frozenset({"Flatten", "Reshape"})
"""The kinds whose output is their input's memory under another shape."""


@dataclass(frozen=True)
class Dimension:
    """A dimension of a matrix product that a person can choose, and where in the spec."""

    name: str
    size: int
    pointer: str = "/model"


@dataclass(frozen=True)
class Layer:
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
    """Those of its matrix products, in a forward pass; all else is little beside them."""
    kept: int = 0
    """The numbers that it keeps for the backward pass, as an estimate."""
    rows: int = 0
    """The rows of a table that an example looks up: its gradient has no others."""
    dimensions: tuple[Dimension, ...] = ()
    parts: tuple[str, ...] = ()
    """The paths of the layers inside it, which overrides match as well."""
    output: bool = False
    softmax: bool = False
    compute: Dtype = "float32"
    variable: Dtype = "float32"
    kept_float32: Kept | None = None
    asked: bool = False
    """An override asked for 16 bits in vain."""

    @property
    def parameters(self) -> int:
        """All weights."""
        return self.trainable + self.frozen

    @property
    def half(self) -> bool:
        """It computes in 16 bits."""
        return self.compute != "float32"

    def under(self, precision: Precision, policy: str) -> "Layer":
        """The same layer with the dtypes that a settled policy gives it."""
        facts = LayerFacts(self.path, self.kind, self.output, self.softmax)
        dtypes = layer_dtypes(precision, policy, facts)
        return replace(
            self,
            compute=dtypes.compute,
            variable=dtypes.variable,
            kept_float32=dtypes.kept,
            asked=dtypes.asked,
        )


class Work(NamedTuple):
    """What a training step on a batch asks of a network."""

    forwards: int = 1
    """The batches that pass through it."""
    passes: int = 3
    """All its work in forward passes of one batch: one forward, and two for the gradients of
    the inputs and of the weights."""


WORK: Final[dict[str, Work]] = {
    # Real and generated images go forward and back to the weights (2 + 4); the loss of the
    # generator goes back through the generated ones once more, to the inputs only (1).
    "discriminator": Work(forwards=2, passes=7),
}
"""By name of the network, where it is not as usual."""


@dataclass(frozen=True)
class Table:
    """The layers of one network, in order."""

    network: str
    """"model", or the name of one of several."""
    layers: tuple[Layer, ...]

    @property
    def work(self) -> Work:
        """What a training step on a batch asks of it."""
        return WORK.get(self.network, Work())

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
        """Those of one forward pass over one example."""
        return sum(layer.multiply_adds for layer in self.layers)

    def under(self, precision: Precision, policy: str) -> "Table":
        """The same network with the dtypes that a settled policy gives each layer."""
        layers = tuple(layer.under(precision, policy) for layer in self.layers)
        return replace(self, layers=layers)


def kept_numbers(kind: str, output_shape: Sequence[int]) -> int:
    """What most layers keep for the backward pass: their output, unless it is another's."""
    return 0 if kind in VIEWS else math.prod(output_shape)


def all_layers(tables: Iterable[Table]) -> list[Layer]:
    """Every layer of every network."""
    return [layer for table in tables for layer in table.layers]

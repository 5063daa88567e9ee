"""The dtype of each matrix product of a layer, independent of Keras.

A layer y = x·w makes three products in a training step: the output (`forward`), the gradient of its
inputs (`input_gradient`, dx = dy·wᵀ) and that of its weights (`weight_gradient`, dw = xᵀ·dy).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ampcore.spec.precision import ROLES, Dtype, Precision, Role

PRODUCT_LAYERS: Final = frozenset({"Conv1D", "Conv2D", "Conv3D", "Dense", "EinsumDense"})
"""The Keras classes whose products can be computed in separate dtypes."""


@dataclass(frozen=True)
class ProductDtypes:
    """The dtypes in which the products of one layer are computed."""

    forward: Dtype
    input_gradient: Dtype
    weight_gradient: Dtype

    @property
    def all(self) -> tuple[Dtype, ...]:
        """The dtypes in the order of `ROLES`."""
        return self.forward, self.input_gradient, self.weight_gradient


class ProductLayer(Protocol):
    """What the rule needs to know of a layer."""

    @property
    def kind(self) -> str:
        """The name of its Keras class."""

    @property
    def output(self) -> bool:
        """It computes an output of the model."""

    @property
    def softmax(self) -> bool:
        """It ends in a softmax."""

    @property
    def own_call(self) -> bool:
        """A subclass of a Keras layer computes it in its own way."""


def has_products(layer: ProductLayer) -> bool:
    """Whether overrides with roles apply to a layer."""
    return layer.kind in PRODUCT_LAYERS and not layer.own_call


def product_dtypes(
    precision: Precision,
    layer: ProductLayer,
    paths: Sequence[str],
    override: int | None,
    compute_dtype: Dtype,
) -> ProductDtypes | None:
    """The dtypes of a layer's products; None if all are computed in the layer's dtype.

    Args:
        precision: The section of the spec.
        layer: The layer.
        paths: Its path and those of its ancestors, the nearest first.
        override: The index of the override that decides the dtype of the whole layer: it also
            replaces those of products before it.
        compute_dtype: The dtype of the whole layer.
    """
    if not has_products(layer):
        return None
    chosen: dict[Role, Dtype] = dict.fromkeys(ROLES, compute_dtype)
    # As for whole layers: the products of outputs are never rounded to 16 bits.
    keeps_float32 = layer.output or layer.softmax
    for index in _matching(precision, paths):
        given = precision.overrides[index]
        if (override is None or index > override) and not (
            keeps_float32 and given.dtype != "float32"
        ):
            chosen |= dict.fromkeys(given.roles, given.dtype)
    made = ProductDtypes(chosen["forward"], chosen["input_gradient"], chosen["weight_gradient"])
    return None if set(chosen.values()) == {compute_dtype} else made


def _matching(precision: Precision, paths: Sequence[str]) -> list[int]:
    """The overrides of products that match the nearest path which any of them matches."""
    for path in paths:
        found = [
            index
            for index, override in enumerate(precision.overrides)
            if not override.is_of_whole_layer and re.search(override.layers, path)
        ]
        if found:
            return found
    return []

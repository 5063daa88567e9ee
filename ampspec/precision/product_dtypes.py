"""The dtype of each matrix product of a layer, independent of Keras.

A layer y = x·w makes three products in a training step: the output (`forward`), the gradient of its
inputs (`input_gradient`, dx = dy·wᵀ) and that of its weights (`weight_gradient`, dw = xᵀ·dy).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from ampspec.precision.precision import ROLES, Dtype, Precision, ProductDtype, Role

PRODUCT_LAYERS: Final = frozenset({"Conv1D", "Conv2D", "Conv3D", "Dense", "EinsumDense"})
"""The Keras classes whose products can be computed in separate dtypes, and in float8."""

NotFloat8 = Literal["kind", "own_call", "loop", "override", "roles"]
"""Why a layer has no product in float8, although the policy is `mixed_float8`."""


@dataclass(frozen=True)
class ProductDtypes:
    """The dtypes in which the products of one layer are computed."""

    forward: ProductDtype
    input_gradient: ProductDtype
    weight_gradient: ProductDtype

    @property
    def all(self) -> tuple[ProductDtype, ...]:
        """The dtypes in the order of `ROLES`."""
        return self.forward, self.input_gradient, self.weight_gradient


class ProductLayer(Protocol):
    """The properties of a layer that decide the dtypes of its products."""

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
        """It is a subclass of a Keras layer with its own `call`."""

    @property
    def in_loop(self) -> bool:
        """It is inside a layer that calls it once for each time step."""


def has_products(layer: ProductLayer) -> bool:
    """Whether overrides with roles apply to a layer."""
    return layer.kind in PRODUCT_LAYERS and not layer.own_call


def base_product_dtype(
    policy: str, layer: ProductLayer, override: int | None, compute_dtype: Dtype
) -> ProductDtype:
    """The dtype of a layer's products before overrides of roles.

    Args:
        policy: With `auto` resolved.
        layer: The layer.
        override: The index of the override that decides the dtype of the whole layer.
        compute_dtype: The dtype of the whole layer.
    """
    scaled = policy == "mixed_float8" and not_float8_reason(layer, override) == "roles"
    return "float8" if scaled and compute_dtype != "float32" else compute_dtype


def not_float8_reason(layer: ProductLayer, override: int | None) -> NotFloat8:
    """Why `mixed_float8` skips a layer; `roles` if only overrides of roles can."""
    if layer.kind not in PRODUCT_LAYERS:
        return "kind"
    if layer.own_call:
        return "own_call"
    # A loop has a separate graph, from which no amax can be recorded.
    if layer.in_loop:
        return "loop"
    return "roles" if override is None else "override"


def product_dtypes(  # noqa: PLR0917 - a function of all of these
    precision: Precision,
    layer: ProductLayer,
    paths: Sequence[str],
    override: int | None,
    compute_dtype: Dtype,
    base: ProductDtype,
) -> ProductDtypes | None:
    """The dtypes of a layer's products; None if all are computed in the layer's dtype.

    Args:
        precision: The section of the spec.
        layer: The layer.
        paths: Its path and those of its ancestors, the nearest first.
        override: The index of the override that decides the dtype of the whole layer; it also
            replaces earlier overrides of products.
        compute_dtype: The dtype of the whole layer.
        base: The dtype of its products before overrides of roles.
    """
    if not has_products(layer):
        return None
    chosen: dict[Role, ProductDtype] = dict.fromkeys(ROLES, base)
    # As for whole layers: the products of outputs are never rounded to 16 bits.
    keeps_float32 = layer.output or layer.softmax
    for index in _matching(precision, paths):
        entry = precision.overrides[index]
        if (override is None or index > override) and not (
            keeps_float32 and entry.dtype != "float32"
        ):
            chosen |= dict.fromkeys(entry.roles, entry.dtype)
    products = ProductDtypes(chosen["forward"], chosen["input_gradient"], chosen["weight_gradient"])
    return None if set(chosen.values()) == {compute_dtype} else products


def _matching(precision: Precision, paths: Sequence[str]) -> list[int]:
    """The product overrides that match the nearest path with a match."""
    for path in paths:
        indices = [
            index
            for index, override in enumerate(precision.overrides)
            if not override.is_of_whole_layer and re.search(override.layers, path)
        ]
        if indices:
            return indices
    return []

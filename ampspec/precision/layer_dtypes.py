"""The rule for the compute dtype and the variable dtype of a layer, independent of Keras.

The trainer derives Keras dtype policies from it, the preflight its estimates.

Source of the levels: MindSpore's `amp_level` and NVIDIA Apex's `opt_level`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from ampspec.precision.devices import DeviceInfo
from ampspec.precision.precision import COMPUTE_DTYPE, Dtype, Precision
from ampspec.precision.product_dtypes import (
    NotFloat8,
    ProductDtypes,
    base_product_dtype,
    not_float8_reason,
    product_dtypes,
)

Float32Reason = Literal["output", "softmax", "input", "embedding", "normalization", "level"]
"""Why a layer computes in float32 under a 16-bit policy."""

NotFloat8Reason = Float32Reason | NotFloat8
"""Why a layer does not compute in float8 under `mixed_float8`."""

PURE_16_BIT_POLICIES: Final = frozenset({"float16", "bfloat16", "O3"})
"""The policies with 16-bit weights."""

INPUT_LAYERS: Final = frozenset(
    {
        *("CategoryEncoding", "CenterCrop", "Discretization", "Normalization", "Rescaling"),
        "Resizing",
        *("RandomBrightness", "RandomContrast", "RandomCrop", "RandomFlip", "RandomRotation"),
        *("RandomTranslation", "RandomZoom"),
    }
)
"""Layers of raw inputs: pixels and features would be rounded before the model sees them."""

SHAPE_ONLY_LAYERS: Final = frozenset({"Flatten", "Identity", "Permute", "Reshape"})
"""Layers that only reshape: the output is computed by the layer before them."""

MATMUL_LAYERS: Final = (
    "AdditiveAttention", "Attention", "Bidirectional", "Conv", "Dense", "Depthwise", "EinsumDense",
    "GRU", "GroupQueryAttention", "GroupedQueryAttention", "LSTM", "MultiHeadAttention", "RNN",
    "Separable", "SimpleRNN",
)  # fmt: skip
"""Prefixes of the layer classes that multiply matrices: level O1 computes them in 16 bits."""


@dataclass(frozen=True)
class LayerInfo:
    """The properties of a layer that decide its dtypes; `path` is matched by overrides."""

    path: str
    kind: str
    """The name of its Keras class."""
    output: bool = False
    """It computes an output of the model."""
    softmax: bool = False
    """It is, or ends in, a softmax."""
    own_call: bool = False
    """It is a subclass of a Keras layer with its own `call`."""
    in_loop: bool = False
    """It is inside a layer that calls it once for each time step."""


@dataclass(frozen=True)
class LayerDtypes:
    """The dtypes of a layer, and why it stays in float32 if it does."""

    compute_dtype: Dtype
    variable_dtype: Dtype
    float32_reason: Float32Reason | None = None
    requested_16_bit: bool = False
    """An override asks for 16 bits and is not followed."""
    products: ProductDtypes | None = None
    """The dtypes of its matrix products; None: all are computed in `compute_dtype`."""
    not_float8: NotFloat8Reason | None = None
    """Under `mixed_float8`, why none of its products is computed in float8."""

    @property
    def policy(self) -> str:
        """The name of the Keras dtype policy."""
        return (
            self.compute_dtype
            if self.compute_dtype == self.variable_dtype
            else f"mixed_{self.compute_dtype}"
        )


def resolve_policy(policy: str, device: DeviceInfo | None) -> str:
    """Resolve `auto` for a device: bfloat16 where it is fast, else float16, else float32.

    Other policies stay; without a device `auto` becomes float32.
    """
    if policy != "auto":
        return policy
    if device is None or device.kind == "xpu":
        return "mixed_bfloat16" if device is not None else "float32"
    for dtype in ("bfloat16", "float16"):
        if device.computes_fast_in(dtype):
            return f"mixed_{dtype}"
    return "float32"


def layer_dtypes(
    precision: Precision, policy: str, layer: LayerInfo, ancestors: Sequence[str] = ()
) -> LayerDtypes:
    """The dtypes of a layer under a resolved policy and the spec's overrides.

    The last override whose regular expression matches the layer's path wins; otherwise those of
    its ancestors apply. Outputs, softmax and input layers always stay in float32; embedding
    tables do under policies with float32 weights, where 16-bit compute would cast the whole table.

    Args:
        precision: The section of the spec.
        policy: Its policy, with `auto` resolved.
        layer: The layer.
        ancestors: The paths of the enclosing layers, the nearest first.
    """
    paths = (layer.path, *ancestors)
    override = nearest_override(precision, paths)
    dtypes = _whole_layer_dtypes(precision, policy, layer, override)
    base = base_product_dtype(policy, layer, override, dtypes.compute_dtype)
    products = product_dtypes(precision, layer, paths, override, dtypes.compute_dtype, base)
    if policy != "mixed_float8" or (products is not None and "float8" in products.all):
        return replace(dtypes, products=products)
    reason = dtypes.float32_reason or not_float8_reason(layer, override)
    return replace(dtypes, products=products, not_float8=reason)


def _whole_layer_dtypes(
    precision: Precision, policy: str, layer: LayerInfo, override: int | None
) -> LayerDtypes:
    pure = policy in PURE_16_BIT_POLICIES
    if override is None:
        dtype, reason = _by_level(policy, layer)
    else:
        dtype, reason = precision.overrides[override].dtype, None
    if dtype != "float32":
        reason = _always_float32_reason(layer, pure)
    if dtype == "float32" or reason is not None:
        requested_16_bit = dtype != "float32" and override is not None
        return LayerDtypes("float32", "float32", reason, requested_16_bit)
    return LayerDtypes(dtype, dtype if pure else "float32")


def matching_override(precision: Precision, path: str) -> int | None:
    """The index of the last override of whole layers that matches a path; None without one."""
    matching = (
        index
        for index, override in enumerate(precision.overrides)
        if override.is_of_whole_layer and re.search(override.layers, path)
    )
    return max(matching, default=None)


def nearest_override(precision: Precision, paths: Sequence[str]) -> int | None:
    """The index of the override that decides a layer's dtype; None without one.

    `paths` are the path of the layer and those of its ancestors, the nearest first.
    """
    matches = (matching_override(precision, path) for path in paths)
    return next((index for index in matches if index is not None), None)


def _by_level(policy: str, layer: LayerInfo) -> tuple[Dtype, Float32Reason | None]:
    """The dtype that the policy gives a layer, before exceptions."""
    if policy == "O1" and not layer.kind.startswith(MATMUL_LAYERS):
        return "float32", "level"
    if policy == "O2" and layer.kind.endswith("Normalization"):
        return "float32", "normalization"
    return COMPUTE_DTYPE[policy], None


def _always_float32_reason(layer: LayerInfo, pure: bool) -> Float32Reason | None:
    """Why a layer stays in float32 although it should compute in 16 bits."""
    if layer.output:
        return "output"
    if layer.softmax:
        return "softmax"
    if layer.kind in INPUT_LAYERS:
        return "input"
    if layer.kind.endswith("Embedding") and not pure:
        return "embedding"
    return None

"""Which dtypes a layer computes in and keeps its weights in: one rule, free of Keras.

The trainer makes Keras's dtype policies of it, the preflight its figures.

Source of the levels: MindSpore's `amp_level` and NVIDIA Apex's `opt_level`.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from ampcore.spec.devices import DeviceFacts
from ampcore.spec.precision import COMPUTE_DTYPE, Dtype, Precision

Kept = Literal["output", "softmax", "input", "embedding", "normalization", "level"]
"""Why a layer computes in float32 under a 16-bit policy."""

PURE: Final = frozenset({"float16", "bfloat16", "O3"})
"""The policies whose weights, too, have 16 bits."""

INPUT_STAGE: Final = frozenset({"CenterCrop", "Normalization", "Rescaling", "Resizing"})
"""Pixels and raw features lose their values in 16 bits before anything has learnt from them."""

PRODUCTS: Final = ("Conv", "Depthwise", "Separable", "Dense", "EinsumDense", "MultiHeadAttention",
                   "GroupedQueryAttention", "Attention", "AdditiveAttention", "LSTM", "GRU",
                   "RNN", "SimpleRNN", "Bidirectional")  # fmt: skip
"""How the kinds of layers begin that multiply matrices: what level O1 gives 16 bits."""


@dataclass(frozen=True)
class LayerFacts:
    """What the rule must know of a layer; `path` is its name, as the spec's overrides see it."""

    path: str
    kind: str
    """The name of its Keras class."""
    output: bool = False
    """It makes an output of the model."""
    softmax: bool = False
    """It is, or ends in, a softmax."""


@dataclass(frozen=True)
class LayerDtypes:
    """A layer's dtypes, and what kept it in float32 if something did."""

    compute: Dtype
    variable: Dtype
    kept: Kept | None = None
    asked: bool = False
    """An override asked for 16 bits, and was not followed."""

    @property
    def policy(self) -> str:
        """The name of the Keras dtype policy."""
        return self.compute if self.compute == self.variable else f"mixed_{self.compute}"


def settled_policy(policy: str, device: DeviceFacts | None) -> str:
    """`auto` as what suits the device: bfloat16 where it is fast, else float16, else float32.

    Other policies stay; without a device `auto` is float32.
    """
    if policy != "auto":
        return policy
    if device is None or device.kind == "xpu":
        return "mixed_bfloat16" if device is not None else "float32"
    for dtype in ("bfloat16", "float16"):
        if device.computes_fast_in(dtype):
            return f"mixed_{dtype}"
    return "float32"


def layer_dtypes(precision: Precision, policy: str, layer: LayerFacts) -> LayerDtypes:
    """The dtypes of a layer under a settled policy and the spec's overrides.

    The last override whose regular expression is found in the layer's path wins. Outputs,
    softmax and the input stage stay in float32 whatever was asked; embedding tables do under
    policies with float32 weights, where computing in 16 bits would cast the whole table.
    """
    pure = policy in PURE
    override = matching_override(precision, layer.path)
    if override is None:
        wanted, kept = _by_level(policy, layer)
    else:
        wanted, kept = precision.overrides[override].dtype, None
    if wanted != "float32":
        kept = _always_kept(layer, pure)
    if wanted == "float32" or kept is not None:
        return LayerDtypes("float32", "float32", kept, wanted != "float32" and override is not None)
    return LayerDtypes(wanted, wanted if pure else "float32")


def matching_override(precision: Precision, path: str) -> int | None:
    """The index of the override that decides for a path: the last that is found in it."""
    matching = (
        index
        for index, override in enumerate(precision.overrides)
        if re.search(override.layers, path)
    )
    return max(matching, default=None)


def _by_level(policy: str, layer: LayerFacts) -> tuple[Dtype, Kept | None]:
    """What the policy itself says of a layer."""
    if policy == "O1" and not layer.kind.startswith(PRODUCTS):
        return "float32", "level"
    if policy == "O2" and layer.kind.endswith("Normalization"):
        return "float32", "normalization"
    return COMPUTE_DTYPE[policy], None


def _always_kept(layer: LayerFacts, pure: bool) -> Kept | None:
    """Why a layer stays in float32 although 16 bits were asked for."""
    if layer.output:
        return "output"
    if layer.softmax:
        return "softmax"
    if layer.kind in INPUT_STAGE:
        return "input"
    if layer.kind.endswith("Embedding") and not pure:
        return "embedding"
    return None

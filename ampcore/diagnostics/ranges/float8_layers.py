"""Says which layers of a run compute in float8, which do not, and why."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from ampcore.precision import LayerPolicies
from ampspec.documents.text import join_names
from ampspec.precision.layer_dtypes import LayerDtypes, NotFloat8Reason
from ampspec.preflight import Finding

MAX_PATHS: Final = 8
"""The maximum number of layers of one reason in the message; the data has all of them."""

REASONS: Final[dict[NotFloat8Reason, str]] = {
    "kind": "neither a dense layer nor a convolution",
    "own_call": "a subclass with its own computation",
    "loop": "called once for each time step",
    "override": "an override",
    "roles": "an override of each product",
    "output": "an output of the model",
    "softmax": "a softmax",
    "input": "a layer of raw inputs",
    "embedding": "an embedding table",
    "normalization": "a normalization",
    "level": "the level of the policy",
}


def float8_layers(policies: LayerPolicies) -> Iterator[Finding]:
    """The finding of a run under `mixed_float8`; a warning if no layer computes in float8."""
    if policies.name != "mixed_float8":
        return
    computed = [path for path, dtypes in policies.layers.items() if _is_float8(dtypes)]
    paths_by_reason = _by_reason(policies.layers)
    how = (
        "stored in 8 bits, with products that XLA chooses (a profile shows their kernels)"
        if policies.has_float8
        else "emulated"
    )
    first = (
        f"{join_names(computed, MAX_PATHS)} have operands in float8, {how}"
        if computed
        else "No layer computes in float8"
    )
    excluded_text = "; ".join(
        f"{join_names(paths, MAX_PATHS)} ({REASONS[reason]})"
        for reason, paths in paths_by_reason.items()
    )
    yield Finding(
        "float8_layers",
        "info" if computed else "warning",
        "/precision/policy",
        f"{first}." + (f" Not in float8: {excluded_text}." if excluded_text else ""),
        {"float8": computed, "others": paths_by_reason, "emulated": not policies.has_float8},
    )


def _is_float8(dtypes: LayerDtypes) -> bool:
    return dtypes.products is not None and "float8" in dtypes.products.all


def _by_reason(layers: Mapping[str, LayerDtypes]) -> dict[NotFloat8Reason, list[str]]:
    paths_by_reason: defaultdict[NotFloat8Reason, list[str]] = defaultdict(list)
    for path, dtypes in layers.items():
        if dtypes.not_float8 is not None:
            paths_by_reason[dtypes.not_float8].append(path)
    return dict(paths_by_reason)

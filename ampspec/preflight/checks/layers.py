"""Checks of the layers' dtypes: outputs, softmax, and the layers that overrides match."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from ampspec.documents.text import join_names
from ampspec.jobs import JobSpec
from ampspec.layers.kinds.activations import Softmax
from ampspec.models.model import Layers
from ampspec.objectives.task import Outputs
from ampspec.precision.layer_dtypes import Float32Reason, matching_override
from ampspec.precision.product_dtypes import PRODUCT_LAYERS
from ampspec.preflight.case import Case, Finding
from ampspec.preflight.layer_table import LayerRow

MAX_PATHS: Final = 8
LOGIT_TASKS: Final = ("classification", "multi_label", "segmentation", "language_model")
"""The tasks whose losses take logits."""
PROBABILITIES: Final = ("softmax", "sigmoid", "hard_sigmoid", "log_softmax", "log_sigmoid")
"""Activations whose values are not logits."""

FLOAT32_REASONS: Final[dict[Float32Reason, str]] = {
    "output": "the loss is computed from them and would be wrong if they were rounded to 16 bits",
    "softmax": "small probabilities would become 0, and their logarithm infinite",
    "input": "the input data would be rounded before the model sees it",
    "embedding": "computing in 16 bits would cast the whole table at every step",
}
"""Why layers stay in float32 regardless of the spec."""


def kept_in_float32(case: Case) -> Iterator[Finding]:
    """Layers that stay in float32 although an override or the policy asks for 16 bits."""
    groups: defaultdict[tuple[int | None, Float32Reason], list[str]] = defaultdict(list)
    for layer in case.layers:
        if layer.float32_reason in FLOAT32_REASONS:
            groups[_asking_override(case, layer), layer.float32_reason].append(layer.path)
    for (override, reason), paths in groups.items():
        by_override = override is not None
        place = f"/precision/overrides/{override}" if by_override else "/precision/policy"
        request = "the override asks for 16 bits" if by_override else f"the policy is {case.policy}"
        yield Finding(
            "kept_in_float32",
            "warning" if by_override else "info",
            f"{place}/dtype" if by_override else place,
            f"{join_names(paths, MAX_PATHS)}: kept in float32, although {request}; "
            f"{FLOAT32_REASONS[reason]}.",
            {"layers": paths, "why": reason},
        )


def outputs_in_16_bits(case: Case) -> Iterator[Finding]:
    """An output or a softmax that computes in 16 bits."""
    for code, word, paths in (
        ("half_precision_output", "output", [x.path for x in case.layers if x.output and x.half]),
        (
            "half_precision_softmax",
            "softmax",
            [x.path for x in case.layers if x.softmax and x.half],
        ),
    ):
        if paths:
            message = (
                f"{join_names(paths, MAX_PATHS)}: a {word} in 16 bits; "
                f"{FLOAT32_REASONS['output']}. Set the layer's dtype to float32."
            )
            yield Finding(code, "warning", "/precision", message, {"layers": paths})


def probabilities_before_loss(case: Case) -> Iterator[Finding]:
    """Outputs of a custom network that end in softmax or sigmoid, before a loss on logits."""
    spec = case.spec
    if not isinstance(spec, JobSpec) or not isinstance(spec.model, Layers):
        return
    network = spec.model.connect()
    for name in network.outputs:
        task = spec.task.outputs[name].task if isinstance(spec.task, Outputs) else spec.task
        layer = next((node.layer for node in network.nodes if node.name == name), None)
        is_softmax = isinstance(layer, Softmax)
        activation = "softmax" if is_softmax else getattr(layer, "activation", None)
        if activation in PROBABILITIES and (task is None or task.kind in LOGIT_TASKS):
            yield Finding(
                "probabilities_before_loss",
                "warning",
                "/model/layers",
                f"{name}: a {activation} computes the output, but the loss takes logits and "
                f"applies its own: the model would hardly learn. Remove the {activation}.",
                {"layers": [name]},
            )


def unmatched_overrides(case: Case) -> Iterator[Finding]:
    """An override that matches no layer: the job would fail before its first step."""
    if case.tables is None:
        return
    every = [path for layer in case.layers for path in (layer.path, *layer.parts)]
    # The kinds of the parts are known only when the model is built.
    with_products = [
        path
        for layer in case.layers
        for path in (layer.path, *layer.parts)
        if layer.kind in PRODUCT_LAYERS or layer.parts
    ]
    for index, override in enumerate(case.spec.precision.overrides):
        whole = override.is_of_whole_layer
        paths = every if whole else with_products
        if not any(re.search(override.layers, path) for path in paths):
            yield Finding(
                "override_matches_nothing",
                "error",
                f"/precision/overrides/{index}/layers",
                f"No layer's path matches {override.layers!r}; the layers "
                f"{'' if whole else 'with products by role '}are "
                f"{join_names(paths, MAX_PATHS)}.",
                {"layers": paths[:MAX_PATHS]},
            )


def _asking_override(case: Case, layer: LayerRow) -> int | None:
    return matching_override(case.spec.precision, layer.path) if layer.requested_16_bit else None

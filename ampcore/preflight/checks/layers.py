"""Checks of the layers' dtypes: outputs, softmax, and what the overrides name."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from ampcore.preflight.case import Case
from ampcore.preflight.finding import Finding
from ampcore.preflight.layer import Layer
from ampcore.spec.layer_dtypes import Kept, matching_override
from ampcore.spec.precision import Precision

SHOWN_PATHS: Final = 8

WHY: Final[dict[Kept, str]] = {
    "output": "the loss is computed from them, and is wrong when they are rounded to 16 bits",
    "softmax": "small probabilities would become 0, and their logarithm infinite",
    "input": "the data would be rounded before anything has learnt from it",
    "embedding": "computing in 16 bits would cast the whole table at every step",
}
"""Why layers stay in float32 whatever the spec says."""


def kept_in_float32(case: Case) -> Iterator[Finding]:
    """16 bits were asked for, by name or by the policy, where they do harm."""
    groups: defaultdict[tuple[int | None, Kept], list[str]] = defaultdict(list)
    for layer in case.layers:
        if layer.kept_float32 in WHY:
            groups[_asking_override(case, layer), layer.kept_float32].append(layer.path)
    for (override, kept), paths in groups.items():
        named = override is not None
        place = f"/precision/overrides/{override}" if named else "/precision/policy"
        asked = "the override asks for 16 bits" if named else f"the policy is {case.policy}"
        yield Finding(
            "kept_in_float32",
            "warning" if named else "info",
            f"{place}/dtype" if named else place,
            f"{_listed(paths)}: kept in float32, although {asked}; {WHY[kept]}.",
            {"layers": paths, "why": kept},
        )


def half_ends(case: Case) -> Iterator[Finding]:
    """A network's output or softmax that does compute in 16 bits."""
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
                f"{_listed(paths)}: a {word} in 16 bits; {WHY['output']}. "
                "Give the layer dtype float32."
            )
            yield Finding(code, "warning", "/precision", message, {"layers": paths})


def unmatched_overrides(case: Case) -> Iterator[Finding]:
    """An override that names no layer: the job would end before its first step."""
    if case.tables is None:
        return
    paths = [path for layer in case.layers for path in (layer.path, *layer.parts)]
    for index, override in enumerate(case.spec.precision.overrides):
        alone = Precision(overrides=(override,))
        if all(matching_override(alone, path) is None for path in paths):
            yield Finding(
                "override_matches_nothing",
                "error",
                f"/precision/overrides/{index}/layers",
                f"No layer's path matches {override.layers!r}; the layers are {_listed(paths)}.",
                {"layers": paths[:SHOWN_PATHS]},
            )


def _asking_override(case: Case, layer: Layer) -> int | None:
    return matching_override(case.spec.precision, layer.path) if layer.asked else None


def _listed(paths: list[str]) -> str:
    more = len(paths) - SHOWN_PATHS
    return ", ".join(paths[:SHOWN_PATHS]) + (f" and {more} more" if more > 0 else "")

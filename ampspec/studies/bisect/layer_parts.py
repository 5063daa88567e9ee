"""The parts of a network that a study sets to float32: layers, and products of layers."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

from ampspec.jobs import JobSpec, Problem, SpecValidationError
from ampspec.precision.layer_dtypes import LayerInfo
from ampspec.precision.precision import ROLES, Role
from ampspec.preflight import preflight
from ampspec.studies.plan import JobResult, NoAnswer, StudyContext
from ampspec.studies.precision.policies import FLOAT32, policy_sections

MAX_LAYERS: Final = 200
"""Keeps the overrides of the study and of the spec within the limit of a spec."""
TOO_MANY_LAYERS: Final = (
    f"at most {MAX_LAYERS} layers in 16 bits; set the others to float32 by overrides"
)
MAX_KEY: Final = 90

Part = tuple[int, Role | None]
"""The index of a layer, and one of its products; None stands for the whole layer."""


def layers_in_16_bit(context: StudyContext[Any], policy: str) -> list[LayerInfo] | None:
    """The layers that the policy computes in 16 bits, in the order of the network.

    None if they depend on the job's data or code; its range samples then list them.
    Raises SpecValidationError if the spec disables the samples, or if there are too many layers.
    """
    spec = JobSpec.parse({**context.document, **policy_sections(context.document, policy)})
    report = preflight(spec)
    if report.figures is None:
        if not spec.telemetry.ranges.enabled:
            expected = "true: the layers of this model are known only from its range samples"
            pointer = "/telemetry/ranges/enabled"
            raise SpecValidationError([Problem(pointer, "layers_unknown", expected, "false")])
        return None
    rows = {row.path: row for table in report.tables for row in table.layers if row.half}
    if len(rows) > MAX_LAYERS:
        raise SpecValidationError(
            [Problem("/model", "too_many_layers", TOO_MANY_LAYERS, str(len(rows)))]
        )
    return [LayerInfo(row.path, row.kind, row.output, row.softmax) for row in rows.values()]


def sampled_layers(result: JobResult) -> list[LayerInfo]:
    """The layers that a job computed in 16 bits, from its range samples. Raises NoAnswer."""
    layers = [LayerInfo(loss.layer, loss.kind) for loss in result.losses if loss.dtype != FLOAT32]
    if len(layers) > MAX_LAYERS:
        raise NoAnswer(f"Expected {TOO_MANY_LAYERS}; received {len(layers)}.")
    return layers


def parts_key(parts: Sequence[Part]) -> str:
    """Names the parts, as indices of layers: `float32-in/0-4,7`."""
    whole = [index for index, role in parts if role is None]
    products = [f"{index}:{role}" for index, role in parts if role is not None]
    text = ",".join([*_ranges(whole), *products]) or "none"
    if len(text) > MAX_KEY - len("float32-in/"):
        text = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"float32-in/{text}"


def _ranges(indices: Sequence[int]) -> list[str]:
    """Indices in ascending order as text: 1, 2, 3 and 5 are `1-3` and `5`."""
    ranges: list[list[int]] = []
    for index in indices:
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return [str(first) if first == last else f"{first}-{last}" for first, last in ranges]


def joined(parts: Sequence[Part]) -> list[Part]:
    """The parts in order; all products of a layer together are the whole layer."""
    roles: dict[int, set[Role | None]] = {}
    for index, role in parts:
        roles.setdefault(index, set()).add(role)
    merged: list[Part] = []
    for index in sorted(roles):
        if None in roles[index] or len(roles[index]) == len(ROLES):
            merged.append((index, None))
        else:
            merged += [(index, role) for role in ROLES if role in roles[index]]
    return merged


def covers(parts: Sequence[Part], index: int, needed_parts: Sequence[Part]) -> bool:
    """Whether the parts include all that a layer needs."""
    if (index, None) in parts:
        return True
    layer_parts = {part for part in needed_parts if part[0] == index}
    return (index, None) not in layer_parts and layer_parts <= set(parts)


def part_overrides(parts: Sequence[Part], layers: Sequence[LayerInfo]) -> list[dict[str, Any]]:
    """The entries of `precision.overrides` that set parts to float32."""
    roles: dict[int, list[Role]] = {}
    for index, role in parts:
        roles.setdefault(index, []).extend([] if role is None else [role])
    entries: list[dict[str, Any]] = []
    for index, chosen in roles.items():
        # A block includes the layers inside it.
        entry = {"layers": f"^{re.escape(layers[index].path)}(/|$)", "dtype": FLOAT32}
        entries.append({**entry, "roles": chosen} if chosen else entry)
    return entries


def part_text(part: Part, layers: Sequence[LayerInfo]) -> str:
    """The path of the layer, with the product for a part of a layer."""
    index, role = part
    return layers[index].path if role is None else f"{layers[index].path} ({role})"

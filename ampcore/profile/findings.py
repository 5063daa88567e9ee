"""Warns of operations whose policy promises 16 bit and whose kernels do not compute in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ampcore.profile.operations import OperationRow, ProfileContext, total_s

CODE: Final = "precision_not_delivered"
"""The code of the warning event."""
MIN_SHARE: Final = 0.05
"""Findings below this share of the time of all promised operations are left out."""
TENSOR_CORE_MULTIPLE: Final = 8
"""16-bit Tensor Cores are fast for sizes that are multiples of this. Source: NVIDIA, "Matrix
Multiplication Background User's Guide", section "Requirements to use Tensor Cores"."""
MAX_OPERATIONS: Final = 20
"""The most operations that a finding names."""


class Not16BitReason(StrEnum):
    """Why an operation does not compute in 16 bit, or not on the hardware for it."""

    CAST_BACK = "cast_back"
    MISSING_KERNEL = "missing_kernel"
    NO_TENSOR_CORES = "no_tensor_cores"
    BAD_SIZE = "bad_size"
    FLOAT32_INPUT = "float32_input"


@dataclass(frozen=True)
class ProfileFinding:
    """The operations that do not compute in 16 bit for one reason.

    Attributes:
        reason: Why.
        message: A sentence with the advice.
        share: Their share of the time of all operations that the policy promises in 16 bit.
        operations: Their names, the longest ones first.
    """

    reason: Not16BitReason
    message: str
    share: float
    operations: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {**vars(self), "operations": list(self.operations), "code": CODE}


def find(rows: Sequence[OperationRow], context: ProfileContext) -> list[ProfileFinding]:
    """What the policy promises and the kernels do not deliver, the largest share first."""
    promised = [row for row in rows if row.promised]
    all_s = total_s(promised)
    sizes = {layer.path: layer.sizes for layer in context.layers}
    groups: dict[Not16BitReason, list[OperationRow]] = {}
    for row in promised:
        reason = reason_of(row, sizes)
        if reason is not None:
            groups.setdefault(reason, []).append(row)
    findings = [
        _finding(reason, group, all_s, sizes, context)
        for reason, group in groups.items()
        if all_s and total_s(group) / all_s >= MIN_SHARE
    ]
    return sorted(findings, key=lambda finding: -finding.share)


def reason_of(row: OperationRow, sizes: Mapping[str, Sequence[int]]) -> Not16BitReason | None:
    """Why a promised operation does not compute in 16 bit; None if it does.

    Args:
        row: The operation.
        sizes: The sizes of the matrices of each layer.
    """
    if not row.promised:
        return None
    if row.tensor_cores is False and _bad_sizes(row, sizes):
        return Not16BitReason.BAD_SIZE
    if row.casts_back:
        return Not16BitReason.CAST_BACK
    if row.dtype == "float32" and not row.in_16_bit:
        return Not16BitReason.FLOAT32_INPUT
    if not row.in_16_bit:
        return Not16BitReason.MISSING_KERNEL
    if row.tensor_cores is False:
        return Not16BitReason.NO_TENSOR_CORES
    return None


def _bad_sizes(row: OperationRow, sizes: Mapping[str, Sequence[int]]) -> list[int]:
    layer_sizes = sizes.get(row.layer or "", ())
    return [size for size in layer_sizes if size % TENSOR_CORE_MULTIPLE]


def _finding(
    reason: Not16BitReason,
    rows: Sequence[OperationRow],
    all_s: float,
    sizes: Mapping[str, Sequence[int]],
    context: ProfileContext,
) -> ProfileFinding:
    share = total_s(rows) / all_s
    part = f"{share:.0%} of the time of the operations that {context.policy} promises in 16 bit"
    bad = sorted({size for row in rows for size in _bad_sizes(row, sizes)})
    return ProfileFinding(
        reason,
        _message(reason, part, bad, context),
        share,
        tuple(row.name for row in rows[:MAX_OPERATIONS]),
    )


def _message(reason: Not16BitReason, part: str, bad: Sequence[int], context: ProfileContext) -> str:
    device = context.device.get("name") or context.device["kind"]
    dtype = context.promised_dtype
    match reason:
        case Not16BitReason.BAD_SIZE:
            listed = ", ".join(map(str, bad[:8]))
            return (
                f"{part} ran without Tensor Cores because of their sizes ({listed}): make them "
                f"multiples of {TENSOR_CORE_MULTIPLE}."
            )
        case Not16BitReason.CAST_BACK if context.engine != "graph":
            return (
                f"{part} ran in float32: the engine {context.engine} (XLA) converts {dtype} back "
                "to float32 for them on this device. Try runtime.engine: graph, or precision."
                "policy: float32."
            )
        case Not16BitReason.CAST_BACK:
            return (
                f"{part} ran in float32: their {dtype} inputs were converted back, because "
                f"{device} has no kernel for them in {dtype}."
            )
        case Not16BitReason.MISSING_KERNEL:
            return (
                f"{part} have {dtype} inputs, but {device} has no kernel that computes in {dtype}: "
                "each number is converted to float32 and back. Use another policy on this device."
            )
        case Not16BitReason.NO_TENSOR_CORES:
            return (
                f"{part} ran in {dtype} without Tensor Cores: their kernels do not use them. Other "
                "sizes or a larger batch may have kernels that do."
            )
        case Not16BitReason.FLOAT32_INPUT:
            return f"{part} ran in float32: their inputs were never converted to {dtype}."

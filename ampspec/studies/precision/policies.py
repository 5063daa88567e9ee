"""The policies that a device can run, and the spec sections that select them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ampspec.precision.devices import DeviceInfo
from ampspec.precision.layer_dtypes import resolve_policy
from ampspec.precision.precision import COMPUTE_DTYPE, Precision, compute_dtypes

FLOAT32: Final = "float32"
TF32: Final = "tf32"
"""In studies: float32 whose matrix products round their operands to TF32, on GPUs that have it."""
DEFAULTS: Final = Precision().model_dump(mode="json")
"""The defaults are filled in by the server, and left out of suggested sections."""
MIXED_POLICIES: Final = ("mixed_bfloat16", "mixed_float16", "mixed_float8")
"""The policies that are studied by default: those with float32 weights."""


def policies_to_study(
    requested: Sequence[str] | None, devices: Sequence[DeviceInfo]
) -> tuple[str, ...]:
    """The requested policies besides float32; by default the mixed policies that devices run.

    `auto` is resolved for the first device; `tf32` is studied only by name. A GPU counts only if
    its Tensor Cores take the dtype; a CPU runs every 16-bit policy, if slowly. float8 is studied by
    default only on GPUs that are known to have it: elsewhere it is emulated, which shows
    the accuracy of a run, but is slow.
    """
    first = devices[0] if devices else None
    if requested is not None:
        resolved = (resolve_policy(policy, first) for policy in requested)
        return tuple(dict.fromkeys(policy for policy in resolved if policy != FLOAT32))
    return tuple(policy for policy in MIXED_POLICIES if _can_run_on_any(devices, policy))


def float32_policies(
    requested: Sequence[str] | None, devices: Sequence[DeviceInfo]
) -> tuple[str, ...]:
    """`tf32`, if no policies are named and a device is known to have it."""
    has_tf32 = any(device.has_tf32 and device.compute_capability for device in devices)
    return (TF32,) if requested is None and has_tf32 else ()


def _can_run_on_any(devices: Sequence[DeviceInfo], policy: str) -> bool:
    if policy == "mixed_float8":
        return any(device.has_float8 for device in devices)
    return not devices or any(_can_run(device, policy) for device in devices)


def _can_run(device: DeviceInfo, policy: str) -> bool:
    return device.kind != "gpu" or device.computes_fast_in(COMPUTE_DTYPE[policy])


def spec_policy(policy: str) -> str:
    """The policy in the spec for a policy of a study."""
    return FLOAT32 if policy == TF32 else policy


def policy_sections(
    document: Mapping[str, Any], policy: str, *, studied: Collection[str] = ()
) -> dict[str, Any]:
    """The sections `precision` and `loss_scale` of a spec under another policy.

    The overrides stay, except under float32. If TF32 is studied, too, float32 runs without it. A
    loss scale in the spec stays if a layer computes in float16, else it is removed. Without one in
    the spec its default applies.
    """
    sections: dict[str, Any] = {"precision": _precision(document, policy, studied)}
    loss_scale = document.get("loss_scale")
    if loss_scale is None:
        return sections
    precision = Precision.model_validate(sections["precision"])
    if "float16" not in compute_dtypes(precision, precision.policy):
        return {**sections, "loss_scale": {"mode": "none"}}
    is_none = isinstance(loss_scale, dict) and loss_scale.get("mode") == "none"
    return {**sections, "loss_scale": {"mode": "dynamic"} if is_none else loss_scale}


def _precision(
    document: Mapping[str, Any], policy: str, studied: Collection[str]
) -> dict[str, Any]:
    section = document.get("precision") or {}
    changed_fields = {name: value for name, value in section.items() if value != DEFAULTS.get(name)}
    if policy == TF32 or (policy == FLOAT32 and TF32 in studied):
        return {"policy": FLOAT32, "tf32": policy == TF32}
    if policy == FLOAT32:
        return {
            "policy": FLOAT32,
            **{name: changed_fields[name] for name in ("tf32",) if name in changed_fields},
        }
    return {**changed_fields, "policy": policy}

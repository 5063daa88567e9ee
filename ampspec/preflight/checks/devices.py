"""Checks of devices: availability, speed in the policy's dtype, and memory."""

from collections.abc import Iterator
from typing import Final

from ampspec.precision.layer_dtypes import resolve_policy
from ampspec.preflight.case import Case, Finding
from ampspec.preflight.figures import figures

SLOW_DTYPES: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("cpu", "float16"): (
        "float16_on_cpu",
        "Few CPUs compute in float16: expect this to be much slower than float32. "
        "On a CPU, only precision.policy mixed_bfloat16 may be faster.",
    ),
    ("cpu", "bfloat16"): (
        "bfloat16_on_cpu",
        "This CPU has neither AVX512-BF16 nor AMX, and computes bfloat16 slower than float32: "
        "use precision.policy float32.",
    ),
    ("gpu", "float16"): (
        "no_tensor_cores",
        "This GPU has no Tensor Cores (compute capability below 7.0): float16 saves "
        "memory here, but hardly any time.",
    ),
    ("gpu", "bfloat16"): (
        "bfloat16_without_tensor_cores",
        "This GPU has no Tensor Cores for bfloat16 (compute capability below 8.0): "
        "expect it to be slow; use mixed_float16 from 7.0 on, otherwise float32.",
    ),
}
"""Code and message for devices that are slow in a dtype, by kind of device and dtype."""


def missing_device(case: Case) -> Iterator[Finding]:
    """The job asks for a GPU, and no known machine has one."""
    if case.machines and not case.devices:
        yield Finding(
            "no_gpu",
            "warning",
            "/runtime/device",
            "The job asks for a GPU, and no online machine has one: it will fail "
            "unless a worker with a GPU comes online. Otherwise set runtime.device to auto or cpu.",
        )


def resolved_auto_policy(case: Case) -> Iterator[Finding]:
    """The policy that auto becomes on each device; without devices the figures are for float32."""
    if case.spec.precision.policy != "auto":
        return
    resolved = {device.name: resolve_policy("auto", device) for device in case.devices}
    policies_text = " and ".join(f"{policy} on {name}" for name, policy in resolved.items())
    yield Finding(
        "auto_policy",
        "info",
        "/precision/policy",
        f"auto is {policies_text}."
        if policies_text
        else "auto is resolved on the worker's device; the figures are for float32.",
        {"policies": resolved},
    )


def slow_policy(case: Case) -> Iterator[Finding]:
    """A device that does not compute the policy's 16-bit dtype faster than float32."""
    for device in case.devices:
        for dtype in case.half_dtypes:
            if not device.computes_fast_in(dtype):
                code, message = SLOW_DTYPES[device.kind, dtype]
                data = {"device": device.name, "kind": device.kind, "dtype": dtype}
                yield Finding(code, "warning", "/precision/policy", message, data)


def emulated_float8(case: Case) -> Iterator[Finding]:
    """A device that does not multiply 8-bit numbers, under the policy mixed_float8."""
    for device in case.devices if case.policy == "mixed_float8" else ():
        if not device.has_float8:
            yield Finding(
                "float8_emulated",
                "warning",
                "/precision/policy",
                f"{device.name or device.kind} does not multiply 8-bit numbers (a GPU does from "
                "compute capability 8.9 on): float8 is emulated, with the same rounding, but "
                "slower than mixed_bfloat16. Use it to test the accuracy of a run.",
                {"device": device.name, "kind": device.kind},
            )


def too_little_memory(case: Case) -> Iterator[Finding]:
    """A training step that needs more memory than the device has."""
    if case.tables is None:
        return
    step_bytes = figures(case.tables, case.spec, case.policy).memory[case.policy].total
    for device in case.devices:
        if device.memory_bytes is not None and step_bytes > device.memory_bytes:
            yield Finding(
                "memory_exceeds_device",
                "warning",
                "/data/batch_size",
                f"A step needs about {_gib(step_bytes)} GiB and {device.name or device.kind} has "
                f"{_gib(device.memory_bytes)}: use a smaller batch_size with train.accumulate, "
                "or a smaller model.",
                {"needed_bytes": step_bytes, "memory_bytes": device.memory_bytes},
            )


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f}"

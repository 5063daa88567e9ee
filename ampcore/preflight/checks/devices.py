"""Checks of what the job may run on: whether it is there, fast in the policy, and large enough."""

from collections.abc import Iterator
from typing import Final

from ampcore.preflight.case import Case
from ampcore.preflight.figures import figures
from ampcore.preflight.finding import Finding
from ampcore.spec.layer_dtypes import settled_policy

SLOW: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("cpu", "float16"): (
        "float16_on_cpu",
        "Few CPUs compute in float16: expect this to be much slower than float32. "
        "On a CPU, precision.policy mixed_bfloat16 is the one that may be faster.",
    ),
    ("cpu", "bfloat16"): (
        "bfloat16_on_cpu",
        "This CPU has neither AVX512-BF16 nor AMX, and computes bfloat16 slower than float32: "
        "take precision.policy float32.",
    ),
    ("gpu", "float16"): (
        "no_tensor_cores",
        "This GPU has no Tensor Cores (compute capability below 7.0): float16 saves "
        "memory here, but hardly any time.",
    ),
    ("gpu", "bfloat16"): (
        "bfloat16_without_tensor_cores",
        "This GPU's Tensor Cores, if it has any, know no bfloat16 (compute capability below 8.0): "
        "expect it to be slow; take mixed_float16 from 7.0 on, else float32.",
    ),
}
"""What is known to disappoint, by kind of device and dtype."""


def no_such_device(case: Case) -> Iterator[Finding]:
    """The job wants a GPU, and none of the machines that are known has one."""
    if case.machines and not case.devices:
        yield Finding(
            "no_gpu",
            "warning",
            "/runtime/device",
            "The job asks for a GPU, and no machine that is there now has one: it will fail "
            "unless a worker with a GPU takes it. Set it to auto or cpu otherwise.",
        )


def settled_auto(case: Case) -> Iterator[Finding]:
    """What the policy auto is on each device; without one the figures are those of float32."""
    if case.spec.precision.policy != "auto":
        return
    settled = {device.name: settled_policy("auto", device) for device in case.devices}
    told = " and ".join(f"{policy} on {name}" for name, policy in settled.items())
    yield Finding(
        "auto_policy",
        "info",
        "/precision/policy",
        f"auto is {told}." if told else "auto is settled on the worker's device; float32 is shown.",
        {"policies": settled},
    )


def slow_policy(case: Case) -> Iterator[Finding]:
    """A device that computes the policy's 16 bits no faster than float32."""
    for device in case.devices:
        for dtype in case.half_dtypes:
            if not device.computes_fast_in(dtype):
                code, message = SLOW[device.kind, dtype]
                facts = {"device": device.name, "kind": device.kind, "dtype": dtype}
                yield Finding(code, "warning", "/precision/policy", message, facts)


def too_little_memory(case: Case) -> Iterator[Finding]:
    """A training step that needs more memory than the device has."""
    if case.tables is None:
        return
    needed = figures(case.tables, case.spec, case.policy).memory[case.policy].total
    for device in case.devices:
        if device.memory_bytes is not None and needed > device.memory_bytes:
            yield Finding(
                "memory_exceeds_device",
                "warning",
                "/data/batch_size",
                f"A step needs about {_gib(needed)} GiB and {device.name or device.kind} has "
                f"{_gib(device.memory_bytes)}: take a smaller batch_size with train.accumulate, "
                "or a smaller model.",
                {"needed_bytes": needed, "memory_bytes": device.memory_bytes},
            )


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f}"

"""Warnings about a job that will run, but not as its author hopes."""

from collections.abc import Iterator

from ampcore import hardware
from ampcore.series import Event
from ampcore.spec import JobSpec
from ampcore.spec.precision import COMPUTE_DTYPE
from ampcore.train.report import warning


def precision_warnings(spec: JobSpec, device: hardware.Device) -> Iterator[Event]:
    """What is known to disappoint about this policy on this device."""
    if COMPUTE_DTYPE.get(spec.precision.policy) != "float16":
        return
    if device == "cpu":
        yield warning(
            "float16_on_cpu",
            "Few CPUs compute in float16: expect this to be much slower than float32. "
            "On a CPU, precision.policy mixed_bfloat16 is the one that may be faster.",
        )
    elif not hardware.has_tensor_cores():
        yield warning(
            "no_tensor_cores",
            "This GPU has no Tensor Cores (compute capability below 7.0): float16 saves "
            "memory here, but hardly any time.",
        )
    if spec.loss_scale.mode == "none":
        yield warning(
            "float16_without_loss_scale",
            "Small float16 gradients become 0 without a loss scale, and overflows are not "
            "skipped: set loss_scale.mode to dynamic.",
        )

"""The checks of the preflight, in the order of their findings."""

from collections.abc import Callable, Iterator
from typing import Final

from ampspec.preflight.case import Case, Finding
from ampspec.preflight.checks.alignment import batch_alignment, layer_alignment
from ampspec.preflight.checks.devices import (
    emulated_float8,
    missing_device,
    resolved_auto_policy,
    slow_policy,
    too_little_memory,
)
from ampspec.preflight.checks.layers import (
    kept_in_float32,
    outputs_in_16_bits,
    probabilities_before_loss,
    unmatched_overrides,
)
from ampspec.preflight.checks.loss_scale import (
    calibration_longer_than_run,
    overflowing_scale,
    scale_never_grows,
    unneeded_loss_scale,
    unscaled_float16,
)
from ampspec.preflight.checks.optimizer import (
    unknown_slots,
    vanishing_epsilon,
    warmup_longer_than_run,
    weights_in_16_bits,
)

Check = Callable[[Case], Iterator[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    missing_device,
    resolved_auto_policy,
    unmatched_overrides,
    outputs_in_16_bits,
    probabilities_before_loss,
    unscaled_float16,
    overflowing_scale,
    vanishing_epsilon,
    weights_in_16_bits,
    unknown_slots,
    slow_policy,
    emulated_float8,
    too_little_memory,
    layer_alignment,
    batch_alignment,
    warmup_longer_than_run,
    scale_never_grows,
    calibration_longer_than_run,
    unneeded_loss_scale,
    kept_in_float32,
)

__all__ = ["CHECKS", "Check"]

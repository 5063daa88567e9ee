"""The checks of the preflight, in the order in which their findings are told."""

from collections.abc import Callable, Iterator
from typing import Final

from ampcore.preflight.case import Case
from ampcore.preflight.checks.alignment import batch_alignment, layer_alignment
from ampcore.preflight.checks.devices import (
    no_such_device,
    settled_auto,
    slow_policy,
    too_little_memory,
)
from ampcore.preflight.checks.layers import half_ends, kept_in_float32, unmatched_overrides
from ampcore.preflight.checks.loss_scale import (
    never_frozen,
    overflowing_scale,
    scale_never_grows,
    unscaled_float16,
    useless_scale,
)
from ampcore.preflight.checks.optimizer import half_weights, long_warm_up, vanishing_epsilon
from ampcore.preflight.finding import Finding

Check = Callable[[Case], Iterator[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    no_such_device,
    settled_auto,
    unmatched_overrides,
    half_ends,
    unscaled_float16,
    overflowing_scale,
    vanishing_epsilon,
    half_weights,
    slow_policy,
    too_little_memory,
    layer_alignment,
    batch_alignment,
    long_warm_up,
    scale_never_grows,
    never_frozen,
    useless_scale,
    kept_in_float32,
)

__all__ = ["CHECKS", "Check"]

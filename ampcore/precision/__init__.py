"""Mixed precision as values: dtype policy, loss scale, finite check, all-or-nothing update."""

from ampcore.precision.finite import all_finite, each_value, exact_norm, global_norm
from ampcore.precision.loss_scale import (
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    LossScaleState,
    NoLossScale,
    from_spec,
)
from ampcore.precision.policy import dtype_policy
from ampcore.precision.transaction import apply_if_finite

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "LossScaleState",
    "NoLossScale",
    "all_finite",
    "apply_if_finite",
    "dtype_policy",
    "each_value",
    "exact_norm",
    "from_spec",
    "global_norm",
]
